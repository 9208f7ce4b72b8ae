"""What a search algorithm has to do: suggest configurations, and learn from their results."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skate._run.types import Config, ResultRow
from skate.tune._arguments import accepted
from skate.tune.search._files import SavesState, newest

if TYPE_CHECKING:
    from skate.tune.experiment.trial import Trial
    from skate.tune.search._files import State

logger: logging.Logger = logging.getLogger(__name__)

UNRESOLVED_SEARCH_SPACE = (
    "the search space given to {cls} as `{par}` contains grids or domains ({space}): these belong "
    "into the space of the tuner, from which the searcher takes them"
)
UNDEFINED_SEARCH_SPACE = (
    "{cls} has no search space: give it `{space}`, or domains such as tune.uniform in the "
    "`param_space` of the tuner"
)
UNDEFINED_METRIC_MODE = (
    "{cls} has no metric and mode (metric={metric!r}, mode={mode!r}): give both to the searcher, "
    "or to TuneConfig"
)


class EvaluatedPoint(NamedTuple):
    """What somebody else has found out; the parameters of `Searcher.add_evaluated_point`."""

    parameters: Config
    value: float
    error: bool = False
    pruned: bool = False
    intermediate_values: list[float] | None = None


class Searcher(SavesState):
    """Suggest configurations, and learn from their results: the base of all search algorithms.

    Args:
        metric: The reported metric to optimise, or a list of several.
        mode: Whether a larger value is better, "max", or a smaller one, "min"; a list with one per
            metric.

    Raises:
        ValueError: If they are something else, or do not fit together.
    """

    FINISHED = "FINISHED"
    CKPT_FILE_TMPL = "searcher-state-{}.pkl"

    def __init__(self, metric: Any = None, mode: Any = None) -> None:
        _check_metric_and_mode(metric, mode)
        self._metric = metric
        self._mode = mode

    @property
    def metric(self) -> Any:
        """The name of what is optimised."""
        return self._metric

    @property
    def mode(self) -> Any:
        """Whether it is to be "min" or "max"."""
        return self._mode

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: Any
    ) -> bool:
        """Take metric, mode and space from the tuner.

        Args:
            metric: The metric of `TuneConfig`.
            mode: Its mode.
            config: The search space.
            spec: What else is known of the experiment.

        Returns:
            `False` if they are set already.
        """
        return False

    def set_seed(self, seed: int) -> None:
        """Draw as this seed says, unless there is one already; called before the first draw.

        What draws from the global generators of `random` and NumPy needs nothing here: these are
        seeded while a searcher is asked.

        Args:
            seed: The seed of `TuneConfig`.
        """

    def _tell(self, metric: str | None, mode: str | None, config: Config, spec: Config) -> bool:
        """Call `set_search_properties`, also of a class written when there was no `spec`."""
        taken = accepted(self.set_search_properties, spec)
        return self.set_search_properties(metric, mode, config, **taken)

    def suggest(self, trial_id: str) -> Config | str | None:
        """Return the configuration of the next trial; `None` for "not now", FINISHED for the end.

        Args:
            trial_id: The id that the trial will have.
        """
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: ResultRow) -> None:
        """Learn that a trial has reported.

        Args:
            trial_id: Its id.
            result: What it has reported.
        """

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        """Learn that a trial has ended.

        Args:
            trial_id: Its id.
            result: Its last result.
            error: Whether it has failed.
        """
        raise NotImplementedError

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Take a limit of trials at a time.

        Args:
            max_concurrent: The limit.

        Returns:
            Whether the searcher itself obeys it.
        """
        return False

    def add_evaluated_point(
        self,
        parameters: Config,
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from a point that somebody else evaluated.

        Args:
            parameters: Its configuration.
            value: What came of it.
            error: Whether it failed.
            pruned: Whether it was stopped early.
            intermediate_values: What was reported on the way.

        Raises:
            NotImplementedError: If the searcher cannot.
        """
        self._take_point(EvaluatedPoint(parameters, value, error, pruned, intermediate_values))

    def _take_point(self, point: EvaluatedPoint) -> None:
        raise NotImplementedError(f"{type(self).__name__} cannot take evaluated points")

    def add_evaluated_trials(self, trials_or_analysis: Any, metric: str) -> None:
        """Learn from the finished trials of another search.

        Args:
            trials_or_analysis: A trial, a list of them, or an `ExperimentAnalysis`.
            metric: The metric that was optimised there.
        """
        for trial in _trials_of(trials_or_analysis):
            self._add_trial(trial, metric)

    def _add_trial(self, trial: Trial, metric: str) -> None:
        analysis = trial.metric_analysis.get(metric)
        if trial.status not in ("TERMINATED", "ERROR") or analysis is None:
            return
        self.add_evaluated_point(
            parameters=dict(trial.config),
            value=analysis["last"],
            error=trial.status == "ERROR",
        )

    # -- saving ------------------------------------------------------------------------------

    def get_state(self) -> State:
        """Return everything that `set_state` needs to go on."""
        return {key: value for key, value in self.__dict__.items() if key != "searcher"}

    def set_state(self, state: State) -> None:
        """Go on from a state.

        Args:
            state: What `get_state` has returned.
        """
        self.__dict__.update(state)

    def _state_to_save(self) -> State:
        return self.get_state()

    def _take_saved_state(self, state: State) -> None:
        self.set_state(state)

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Write the state to a file of a folder.

        Args:
            checkpoint_dir: The folder.
            session_str: Goes into the name of the file.
        """
        self.save(os.path.join(checkpoint_dir, self.CKPT_FILE_TMPL.format(session_str)))

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Go on from the newest state in a folder.

        Args:
            checkpoint_dir: The folder.

        Raises:
            RuntimeError: If there is none.
        """
        path = newest(checkpoint_dir, self.CKPT_FILE_TMPL.format("*"))
        if path is None:
            raise RuntimeError(f"there is no state of a searcher in {checkpoint_dir}")
        self.restore(str(path))


def _check_metric_and_mode(metric: object, mode: Any) -> None:
    modes = mode if isinstance(mode, (list, tuple)) else [mode]
    if mode is not None and any(one not in ("min", "max", "obs") for one in modes):
        raise ValueError(f"mode takes 'min' or 'max', or a list of them; got {mode!r}")
    if isinstance(metric, (list, tuple)) != isinstance(mode, (list, tuple)) and metric and mode:
        raise ValueError(f"metric and mode are two names or two lists; got {metric!r}, {mode!r}")
    if isinstance(metric, (list, tuple)) and mode and len(metric) != len(mode):
        raise ValueError(f"there must be one mode per metric; got {metric!r} and {mode!r}")


def _trials_of(trials_or_analysis: Any) -> list[Trial]:
    if isinstance(trials_or_analysis, (list, tuple)):
        return list(trials_or_analysis)
    if hasattr(trials_or_analysis, "trials"):
        return list(trials_or_analysis.trials)
    return [trials_or_analysis]


def has_state(folder: str, pattern: str) -> bool:
    """Return whether a folder holds a saved state."""
    return any(Path(folder).glob(pattern))


def negated_if_max(value: float, mode: str) -> float:
    """Negate the value in mode "max", for optimisers that only minimise."""
    return -value if mode == "max" else value


def plain_points(points: object) -> list[dict[str, Any]]:
    """Check points to evaluate, and return them as plain dictionaries."""
    if points is None:
        return []
    if not isinstance(points, list) or not all(isinstance(p, Mapping) for p in points):
        raise TypeError(f"points_to_evaluate takes a list of dictionaries; got {points!r}")
    return [dict(point) for point in points]


def check_rewards(points: list[Any], rewards: Any) -> None:
    """Refuse rewards, if given, that are not one per point."""
    if rewards is not None and len(rewards) != len(points):
        raise ValueError(
            f"there must be one evaluated reward per point; got {len(rewards)} rewards for "
            f"{len(points)} points"
        )
