"""Repeat the schedule of configurations that population-based training has found."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skate._core.printable import printable
from skate._run.types import ResultRow
from skate.tune.result import TRAINING_ITERATION
from skate.tune.schedulers._explore import perturbed_tag
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.experiment.trial import Trial


class PopulationBasedTrainingReplay(FIFOScheduler):
    """Run one trial, whose configuration changes when it did in a run of PBT.

    Args:
        policy_file: The pbt_policy_<trial>.txt of that run.

    Raises:
        ValueError: If there is no such file.
    """

    def __init__(self, policy_file: str) -> None:
        super().__init__()
        path = Path(policy_file).expanduser()
        if not path.exists():
            raise ValueError(f"Policy file not found: {path}")
        self.policy_file: str = str(path)
        self.experiment_tag: str = f"replay_{os.path.basename(self.policy_file)}"
        self.config: dict[str, Any]
        self.config, self._policy = _load(path)
        self.current_config: dict[str, Any] = self.config
        self._trial: Trial | None = None
        self._position = 0
        self._current_step = 0

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        if self._trial is trial:  # it failed, and begins again
            return
        if self._trial is not None:
            raise ValueError("a PBT replay runs one trial; there are more: use num_samples=1")
        self._trial = trial
        if self._policy:
            trial.set_config(dict(self.config))
        elif trial.config:
            self.config = self.current_config = trial.config
        else:
            raise ValueError(f"the policy in {self.policy_file} is empty, and there is no config")

    def learn_from(self, trial: Trial, results: Iterable[ResultRow]) -> None:
        for result in results:
            self._current_step = result.get(TRAINING_ITERATION, self._current_step)
            if self._is_due(result):
                self.current_config = self._policy[self._position][1]
                self._position += 1
        if self._position and not trial.is_finished():
            trial.set_config(dict(self.current_config))

    def needs_checkpoint(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> bool:
        return self._is_due(result)

    def _is_due(self, result: ResultRow) -> bool:
        """Return whether the next change of the policy is to be made at this result."""
        if TRAINING_ITERATION not in result or self._position >= len(self._policy):
            return False
        return bool(result[TRAINING_ITERATION] >= self._policy[self._position][0])

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> str:
        self._current_step = result.get(TRAINING_ITERATION, self._current_step)
        if not self._is_due(result):
            return TrialScheduler.CONTINUE
        config = self._policy[self._position][1]
        self._position += 1
        self.current_config = config
        checkpoint = tune_controller.save_trial(trial)
        tune_controller.pause_trial(trial, should_checkpoint=False)
        trial.set_experiment_tag(perturbed_tag(self.experiment_tag, config, config))
        trial.set_config(dict(config))
        if checkpoint is not None:
            tune_controller.adopt_checkpoint(trial, checkpoint, result)
        return TrialScheduler.NOOP

    def debug_string(self) -> str:
        return (
            f"PopulationBasedTraining replay: Step {self._current_step}, perturb {self._position}"
        )


def _load(path: Path) -> tuple[dict[str, object], list[tuple[int, dict[str, object]]]]:
    """Read the first configuration, and (step, configuration) of each change.

    The file begins with the past of the trials that were copied; the last unbroken chain counts.
    """
    try:
        rows = [_row_of(line) for line in path.read_text().splitlines()]
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"Could not read PBT policy file: {path}: {error}") from None
    policy: list[tuple[int, dict[str, Any]]] = []
    source_tag, first = None, {}
    for old_tag, new_tag, _, new_step, old_config, new_config in reversed(rows):
        if source_tag is not None and old_tag != source_tag:
            break
        source_tag, first = new_tag, old_config
        policy.append((new_step, new_config))
    return first, policy[::-1]


def _row_of(line: str) -> list[Any]:
    row = json.loads(line)
    match row:
        case [_, _, _, int() | float(), dict(), dict()]:
            fields: list[Any] = row
            return fields
    raise ValueError(
        "a line is a list of two tags, two steps and two configurations; "
        f"got {printable(line[:80])}"
    )
