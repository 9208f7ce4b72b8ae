"""`ray.tune.utils.mock`, `mock_trainable`, `ray.tune.search._mock`: trials and searchers to test
callbacks and schedulers with."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skate.tune import Callback, Trainable, register_trainable
from skate.tune.experiment import Trial
from skate.tune.search import ConcurrencyLimiter, Searcher
from skate.tune.search.search_generator import SearchGenerator

MOCK_TRAINABLE_NAME = "mock_trainable"
MOCK_ERROR_KEY = "mock_error"


class MyTrainableClass(Trainable):
    """Its reward grows to `height`, the slower the larger `width`. With `mock_error` its second
    step fails, unless it was restored (and with `persistent_error` also then)."""

    def setup(self, config: dict[str, Any]) -> None:
        self.timestep = 0
        self.restored = False

    def step(self) -> dict[str, Any]:
        config = self.config
        fails = config.get(MOCK_ERROR_KEY) and self.timestep > 0
        if fails and (config.get("persistent_error") or not self.restored):
            raise RuntimeError(f"this trial was asked to fail after step {self.timestep}")
        time.sleep(config.get("sleep", 0))
        self.timestep += 1
        reward = math.tanh(self.timestep / config.get("width", 1)) * config.get("height", 1)
        return {"episode_reward_mean": reward}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        state = json.dumps({"timestep": self.timestep})
        Path(checkpoint_dir, "checkpoint").write_text(state)

    def load_checkpoint(self, checkpoint: Any) -> None:
        state = json.loads(Path(checkpoint, "checkpoint").read_text())
        self.timestep = state["timestep"]
        self.restored = True


def register_mock_trainable() -> None:
    """Register it, so that its name stands for it."""
    register_trainable(MOCK_TRAINABLE_NAME, MyTrainableClass)


class TrialStatusSnapshot:
    """The states of all trials, each time that one of them has changed."""

    def __init__(self) -> None:
        self._snapshot: list[dict[str, str]] = []

    def append(self, new_snapshot: dict[str, str]) -> None:
        """Add the states, if they are not the last ones."""
        if new_snapshot and self._snapshot[-1:] != [new_snapshot]:
            self._snapshot.append(new_snapshot)

    def max_running_trials(self) -> int:
        """Return how many trials have run at once."""
        counts = (list(states.values()).count(Trial.RUNNING) for states in self._snapshot)
        return max(counts, default=0)

    def all_trials_are_terminated(self) -> bool:
        """Return whether all have ended well."""
        last = self._snapshot[-1:]
        return bool(last) and set(last[0].values()) == {Trial.TERMINATED}


class TrialStatusSnapshotTaker(Callback):
    """Writes the states of all trials down after each step."""

    def __init__(self, snapshot: TrialStatusSnapshot) -> None:
        self._snapshot = snapshot

    def on_step_end(self, iteration: int, trials: Sequence[Any], **info: Any) -> None:
        self._snapshot.append({trial.trial_id: trial.status for trial in trials})


class _MockSearcher(Searcher):
    """Suggests the same again and again, nothing while `stall` is set, and writes down what it is
    told."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.stall = False
        self.live_trials: dict[str, int] = {}
        self.counter = {"result": 0, "complete": 0}
        self.results: list[Any] = []
        self.final_results: list[Any] = []

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        if self.stall:
            return None
        self.live_trials[trial_id] = 1
        return {"test_variable": 2}

    def on_trial_result(self, trial_id: str, result: Any) -> None:
        self.counter["result"] += 1
        self.results.append(result)

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        self.counter["complete"] += 1
        self.live_trials.pop(trial_id, None)
        if result:
            self.final_results.append(result)


class _MockSuggestionAlgorithm(SearchGenerator):
    """Trials of a `_MockSearcher`, at most `max_concurrent` of them at once."""

    def __init__(self, max_concurrent: int | None = None, **settings: Any) -> None:
        self._told = _MockSearcher(**settings)
        searcher: Searcher = self._told
        if max_concurrent:
            searcher = ConcurrencyLimiter(searcher, max_concurrent=max_concurrent)
        super().__init__(searcher)

    @property
    def live_trials(self) -> dict[str, int]:
        return self._told.live_trials

    @property
    def results(self) -> list[Any]:
        return self._told.results
