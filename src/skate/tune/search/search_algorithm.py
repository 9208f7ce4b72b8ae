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
        """Take metric, mode and space from the tuner.

        Args:
            metric: The metric of `TuneConfig`.
            mode: Its mode.
            config: The space.
            **spec: What else is known of the experiment.

        Returns:
            False if they are set already.
        """
        if self._metric and metric:
            return False
        self._metric = self._metric or metric
        return True

    def set_seed(self, seed: int) -> None:
        """Draw as this seed says, unless there is one already; called before the first draw.

        What draws from the global generators of `random` and NumPy needs nothing here: these are
        seeded while trials are asked for.

        Args:
            seed: The seed of `TuneConfig`.
        """

    @property
    def total_samples(self) -> int:
        """How many trials there will be; 0 if unknown."""
        return 0

    def add_configurations(self, experiments: Any) -> None:
        """Take an experiment, or several.

        Args:
            experiments: The experiment, a dictionary that describes it, or several.
        """
        raise NotImplementedError

    def next_trial(self) -> Trial | None:
        """Return the next trial; None if there is none now."""
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: ResultRow) -> None:
        """Note that a trial has reported.

        Args:
            trial_id: The trial's id.
            result: What it has reported.
        """

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        """Note that a trial has ended.

        Args:
            trial_id: The trial's id.
            result: The last that it has reported; None if there is nothing.
            error: Whether it has failed.
        """

    def is_finished(self) -> bool:
        """Return whether there will be no more trials."""
        return self._finished

    def set_finished(self) -> None:
        """Make no more trials."""
        self._finished = True

    def has_checkpoint(self, dirpath: str) -> bool:
        """Return whether a folder holds a state to go on from.

        Args:
            dirpath: The folder.
        """
        return False

    def save_to_dir(self, dirpath: str, **kwargs: Any) -> Any:
        """Write the state to a folder.

        Args:
            dirpath: The folder.
            **kwargs: What the name of the file is made of: `session_str`.
        """

    def restore_from_dir(self, dirpath: str) -> None:
        """Go on from the newest state in a folder.

        Args:
            dirpath: The folder.
        """
