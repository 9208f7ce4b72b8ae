"""Where trials come from, as the controller sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._run.types import Config, ResultRow

if TYPE_CHECKING:
    from skate.tune.experiment.trial import Trial

WITHOUT_END = 2**31  # that many samples are never made


class SearchAlgorithm:
    """A source of trials: `next_trial` until `is_finished`."""

    _finished = False
    _metric: str | None = None

    @property
    def metric(self) -> str | None:
        """The name of what is optimised, if the algorithm knows."""
        return self._metric

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: Any
    ) -> bool:
        """Take metric, mode and space from the tuner; False if they are set already."""
        if self._metric and metric:
            return False
        self._metric = self._metric or metric
        return True

    @property
    def total_samples(self) -> int:
        """How many trials there will be; 0 if unknown."""
        return 0

    def add_configurations(self, experiments: Any) -> None:
        """Take an experiment, or several."""
        raise NotImplementedError

    def next_trial(self) -> Trial | None:
        """The next trial; None if there is none now."""
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: ResultRow) -> None:
        """A trial has reported."""

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        """A trial has ended."""

    def is_finished(self) -> bool:
        """Whether there will be no more trials."""
        return self._finished

    def set_finished(self) -> None:
        """Make no more trials."""
        self._finished = True

    def has_checkpoint(self, dirpath: str) -> bool:
        """Whether a folder holds a state to go on from."""
        return False

    def save_to_dir(self, dirpath: str, **kwargs: Any) -> Any:
        """Write the state to a folder."""

    def restore_from_dir(self, dirpath: str) -> None:
        """Go on from the newest state in a folder."""
