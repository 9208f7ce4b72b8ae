"""Aim: a run per trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._run.loggers.base import LoggerCallback
from skate._run.types import ResultRow
from skate._run.values import flatten, plain

if TYPE_CHECKING:
    from skate._run.callbacks import TrialLike


class AimLoggerCallback(LoggerCallback):
    """Results go to an Aim repository, by default one in the working directory; with `metrics`
    only those. `aim_run_kwargs` go to `aim.Run`."""

    def __init__(
        self,
        repo: Any = None,
        experiment_name: str | None = None,
        metrics: list[str] | None = None,
        **aim_run_kwargs: Any,
    ) -> None:
        super().__init__()
        self.repo = repo
        self.experiment_name = experiment_name
        self.metrics = metrics
        self.aim_run_kwargs = aim_run_kwargs
        self._runs: dict[str, Any] = {}

    def log_trial_start(self, trial: TrialLike) -> None:
        aim = try_import("aim", "aim")
        run = aim.Run(repo=self.repo, experiment=self.experiment_name, **self.aim_run_kwargs)
        run["trial_id"] = trial.trial_id
        run["hparams"] = dict(flatten(trial.config))
        self._runs[trial.trial_id] = run

    def log_trial_result(self, iteration: int, trial: TrialLike, result: ResultRow) -> None:
        step = result.get("training_iteration", iteration)
        own = {name: value for name, value in result.items() if name != "config"}
        for name, value in flatten(own):
            number = plain(value)
            if isinstance(number, (int, float)) and (not self.metrics or name in self.metrics):
                self._runs[trial.trial_id].track(number, name=name, step=step)

    def log_trial_end(self, trial: TrialLike, failed: bool = False) -> None:
        run = self._runs.pop(trial.trial_id, None)
        if run is not None:
            run.close()
