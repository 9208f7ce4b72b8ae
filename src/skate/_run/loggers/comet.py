"""Comet: an experiment per trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._run.loggers.base import LoggerCallback
from skate._run.types import ResultRow
from skate._run.values import flatten, plain

if TYPE_CHECKING:
    from skate._run.callbacks import TrialLike


class CometLoggerCallback(LoggerCallback):
    """Results go to Comet; `experiment_kwargs` to its experiments. With `save_checkpoints` the
    files of checkpoints do too."""

    def __init__(
        self,
        online: bool = True,
        tags: list[str] | None = None,
        save_checkpoints: bool = False,
        **experiment_kwargs: Any,
    ) -> None:
        super().__init__()
        self.online = online
        self.tags: list[str] = tags or []
        self.save_checkpoints = save_checkpoints
        self.experiment_kwargs = experiment_kwargs
        self._experiments: dict[str, Any] = {}

    def log_trial_start(self, trial: TrialLike) -> None:
        comet = try_import("comet_ml", "comet")
        kind = comet.Experiment if self.online else comet.OfflineExperiment
        experiment = kind(**self.experiment_kwargs)
        experiment.set_name(str(trial))
        experiment.add_tags(self.tags)
        experiment.log_other("Trial ID", trial.trial_id)
        experiment.log_parameters(dict(flatten(trial.config)))
        self._experiments[trial.trial_id] = experiment

    def log_trial_result(self, iteration: int, trial: TrialLike, result: ResultRow) -> None:
        own = {name: value for name, value in result.items() if name != "config"}
        values = {name: plain(value) for name, value in flatten(own)}
        numbers = {n: v for n, v in values.items() if isinstance(v, (int, float))}
        step = result.get("training_iteration", iteration)
        self._experiments[trial.trial_id].log_metrics(numbers, step=step)

    def log_trial_save(self, trial: Any) -> None:
        if self.save_checkpoints and trial.checkpoint is not None:
            with trial.checkpoint.as_directory() as folder:
                self._experiments[trial.trial_id].log_asset_folder(folder)

    def log_trial_end(self, trial: TrialLike, failed: bool = False) -> None:
        experiment = self._experiments.pop(trial.trial_id, None)
        if experiment is not None:
            experiment.end()
