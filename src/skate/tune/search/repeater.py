"""Each configuration several times, for objectives that are a matter of luck."""

from __future__ import annotations

import math

from skate._run.types import Config, ResultRow
from skate.tune.search.concurrency_limiter import _Wrapper
from skate.tune.search.searcher import Searcher

TRIAL_INDEX = "__trial_index__"


class _Group:
    """The trials of one configuration."""

    def __init__(self, primary: str, config: Config, wanted: int) -> None:
        self.primary = primary
        self.config = config
        self.wanted = wanted
        self.scores: dict[str, float | None] = {}

    def full(self) -> bool:
        return len(self.scores) == self.wanted

    def done(self) -> bool:
        return self.full() and all(score is not None for score in self.scores.values())

    def mean(self) -> float:
        """Compute the mean of the trials that gave a number; not a number if none did."""
        found = [s for s in self.scores.values() if s is not None and not math.isnan(s)]
        return sum(found) / len(found) if found else math.nan


class Repeater(_Wrapper):
    """Run each configuration several times; the searcher sees the mean of the last results.

    Args:
        searcher: The searcher.
        repeat: How many times.
        set_index: Whether configurations have `__trial_index__`, from 0 to repeat - 1.

    Raises:
        ValueError: If `repeat` is below 1.
    """

    def __init__(self, searcher: Searcher, repeat: object = 1, set_index: bool = True) -> None:
        if not isinstance(repeat, int) or repeat < 1:
            raise ValueError(f"repeat takes a number from 1; got {repeat!r}")
        super().__init__(searcher)
        self.repeat = repeat
        self._set_index = set_index
        self._groups: list[_Group] = []
        self._group_of: dict[str, _Group] = {}

    def suggest(self, trial_id: str) -> Config | str | None:
        if not self._groups or self._groups[-1].full():
            config = self.searcher.suggest(trial_id)
            if not isinstance(config, dict):
                return config
            self._groups.append(_Group(trial_id, config, self.repeat))
        group = self._groups[-1]
        index = len(group.scores)
        group.scores[trial_id] = None
        self._group_of[trial_id] = group
        return {**group.config, TRIAL_INDEX: index} if self._set_index else dict(group.config)

    def on_trial_result(self, trial_id: str, result: ResultRow) -> None:
        """Note that a trial has reported; the searcher hears of means only.

        Args:
            trial_id: The trial's id.
            result: What it has reported.
        """

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        group = self._group_of.get(trial_id)
        if group is None or group.scores[trial_id] is not None:
            return
        score = math.nan if error or not result else result.get(self.searcher.metric, math.nan)
        group.scores[trial_id] = score
        if group.done():
            mean = group.mean()
            self.searcher.on_trial_complete(
                group.primary,
                result={self.searcher.metric: mean, **_without(result, self.searcher.metric)},
                error=math.isnan(mean),
            )


def _without(result: ResultRow | None, key: str) -> dict[str, object]:
    return {name: value for name, value in (result or {}).items() if name != key}
