"""What a tuner has found: one result per trial."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate._run.reporting import AUTOMATIC
from skate._run.result import Result
from skate._run.values import flatten

if TYPE_CHECKING:
    import pandas as pd

    from skate.tune.analysis.experiment_analysis import ExperimentAnalysis
    from skate.tune.experiment.trial import Trial


class ResultGrid:
    """Hold the results of all trials, in their order.

    Use `grid[0]`, `len(grid)` and `for result in grid`.

    Args:
        experiment_analysis: The trials.
    """

    def __init__(self, experiment_analysis: ExperimentAnalysis) -> None:
        self._experiment_analysis = experiment_analysis

    @property
    def experiment_path(self) -> str:
        """The experiment's folder."""
        return self._experiment_analysis.experiment_path

    @property
    def filesystem(self) -> Any:
        """The Arrow file system that it is on."""
        return self._experiment_analysis._fs

    @property
    def _trials(self) -> list[Trial]:
        return self._experiment_analysis.trials

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """Return the result of the trial with the best value of a metric.

        Args:
            metric: The metric; by default that of `TuneConfig`.
            mode: Whether the largest value is the best, "max", or the smallest, "min"; by default
                that of `TuneConfig`.
            scope: Which of a trial's values counts: "last", "all" (its best), "avg", "last-5-avg"
                or "last-10-avg".
            filter_nan_and_inf: Whether to pass over values that are not finite.

        Raises:
            ValueError: If metric or mode are nowhere given.
            RuntimeError: If no trial has such a value.

        Example:
            >>> from skate import tune
            >>> tuner = tune.Tuner(
            ...     lambda config: {"score": config["x"]},
            ...     param_space={"x": tune.grid_search([1, 3, 2])},
            ...     run_config={"verbose": 0},
            ... )
            >>> tuner.fit().get_best_result("score", "max").metrics["score"]
            3
        """
        analysis = self._experiment_analysis
        if len(self._trials) != 1:
            for name, value in (
                ("metric", metric or analysis.default_metric),
                ("mode", mode or analysis.default_mode),
            ):
                if not value:
                    raise ValueError(
                        f"No {name} is provided: give one to get_best_result() or TuneConfig"
                    )
        trial = analysis.get_best_trial(metric, mode, scope, filter_nan_and_inf)
        if trial is None:
            raise self._no_best(str(metric or analysis.default_metric)) from next(
                iter(self.errors), None
            )
        return self._result(trial)

    def _no_best(self, metric: str) -> RuntimeError:
        known = {name for trial in self._trials for name, _ in flatten(trial.last_result)}
        reported = sorted(name for name in known if name.partition("/")[0] not in AUTOMATIC)
        if metric in known:
            reason = (
                "All values are NaN or infinite; filter_nan_and_inf=False takes these as well."
            )
        else:
            reason = f"No trial has reported it; reported were {reported or 'no metrics'}."
        errors = self.errors
        failed = f" {len(errors)} of {len(self)} trials failed, see .errors." if errors else ""
        return RuntimeError(
            f"No best trial found for the given metric: {metric}. {reason}{failed}"
        )

    def get_dataframe(
        self, filter_metric: str | None = None, filter_mode: str | None = None
    ) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per trial: its last result, or its best.

        Args:
            filter_metric: The metric by which the best is chosen; by default it is the last.
            filter_mode: Whether the largest value is the best, "max", or the smallest, "min".

        Example:
            >>> from skate import tune
            >>> tuner = tune.Tuner(
            ...     lambda config: {"score": config["x"]},
            ...     param_space={"x": tune.grid_search([1, 2])},
            ...     run_config={"verbose": 0},
            ... )
            >>> sorted(tuner.fit().get_dataframe()["score"])
            [1, 2]
        """
        return self._experiment_analysis.dataframe(metric=filter_metric, mode=filter_mode)

    def plot(self, metric: str | None = None, mode: str | None = None) -> Any:
        """Draw learning curves, the importance of the parameters, and parallel coordinates.

        Args:
            metric: The metric; by default that of `TuneConfig`.
            mode: Whether larger values are better, "max", or smaller ones, "min".

        Returns:
            A figure of matplotlib.
        """
        from skate.tune.plotting import draw_grid

        return draw_grid(self._experiment_analysis, metric, mode)

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, i: int) -> Result:
        return self._result(self._trials[i])

    def __iter__(self) -> Iterator[Result]:
        return (self._result(trial) for trial in self._trials)

    @property
    def errors(self) -> list[BaseException]:
        """What failed trials raised."""
        return [result.error for result in self if result.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials failed."""
        return sum(trial.status == "ERROR" for trial in self._trials)

    @property
    def num_terminated(self) -> int:
        """How many trials ended well."""
        return sum(trial.status == "TERMINATED" for trial in self._trials)

    def _result(self, trial: Trial) -> Result:
        is_local = trial.storage.is_local
        return Result(
            metrics={**trial.last_result, "config": trial.config} if trial.last_result else {},
            checkpoint=trial.checkpoint,
            error=None if trial.status == "TERMINATED" else trial.get_error(),
            path=trial.path,
            best_checkpoints=trial.get_best_checkpoints(),
            _storage_filesystem=None if is_local else self.filesystem,
        )

    def _repr_html_(self) -> str:
        return self._experiment_analysis._repr_html_()

    def __repr__(self) -> str:
        from skate.tune._overview import overview

        table = overview(self._trials, self._experiment_analysis.default_metric)
        return f"ResultGrid<{len(self)} results in {self.experiment_path}\n{table}\n>"
