"""Comet: an experiment per trial."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._run.loggers.base import LoggerCallback
from skate._run.types import ResultRow
from skate._run.values import flatten, plain

if TYPE_CHECKING:
    from skate._run.callbacks import TrialLike

_LEFT_OUT = ("done", "should_checkpoint", "config")
_OF_THE_SYSTEM = ("node_ip", "hostname", "pid", "date")
_OTHERS = ("trial_id", "experiment_id", "experiment_tag")
_CURVES = ("hist_stats/episode_reward", "hist_stats/episode_lengths")

# What Comet gathers by itself, so much of it for many trials that its server slows them down.
_GATHERED = (
    "auto_output_logging",
    "log_git_metadata",
    "log_git_patch",
    "log_env_cpu",
    "log_env_gpu",
)


class CometLoggerCallback(LoggerCallback):
    """Log each trial as an experiment of Comet.

    Args:
        online: Whether results go to Comet's server at once, and not into files that can be
            uploaded later.
        tags: Tags of every experiment.
        save_checkpoints: Whether the files of checkpoints go to Comet, too.
        experiment_kwargs: What else goes to Comet's experiments. They gather nothing about the
            machine and the repository unless it says so.
    """

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
        self.experiment_kwargs: dict[str, Any] = {
            **dict.fromkeys(_GATHERED, False),
            **experiment_kwargs,
        }
        self._experiments: dict[TrialLike, Any] = {}

    def log_trial_start(self, trial: TrialLike) -> None:
        if trial not in self._experiments:
            self._experiments[trial] = self._new_experiment()
        experiment = self._experiments[trial]
        experiment.set_name(str(trial))
        experiment.add_tags(self.tags)
        experiment.log_other("Trial ID", trial.trial_id)
        experiment.log_parameters(dict(flatten(trial.config)))

    def _new_experiment(self) -> Any:
        comet = try_import("comet_ml", "comet")
        kind = comet.Experiment if self.online else comet.OfflineExperiment
        experiment = kind(**self.experiment_kwargs)
        config = importlib.import_module("comet_ml.config")
        config.set_global_experiment(None)  # so that there can be several at a time
        return experiment

    def log_trial_result(self, iteration: int, trial: TrialLike, result: ResultRow) -> None:
        if trial not in self._experiments:
            self.log_trial_start(trial)
        experiment = self._experiments[trial]
        step = result.get("training_iteration", iteration)
        experiment.log_parameters(dict(flatten(result.get("config") or {})), step=step)
        metrics, others = {}, {}
        for name, value in flatten(result):
            if _is_one_of(_LEFT_OUT, name):
                continue
            if _is_one_of(_OTHERS, name):
                others[name] = value
            elif _is_one_of(_OF_THE_SYSTEM, name):
                experiment.log_system_info(name, value)
            elif _is_one_of(_CURVES, name):
                experiment.log_curve(name, x=range(len(value)), y=value, step=step)
            else:
                metrics[name] = plain(value)
        experiment.log_others(others)
        experiment.log_metrics(metrics, step=step)

    def log_trial_save(self, trial: Any) -> None:
        if self.save_checkpoints and trial.checkpoint is not None:
            with trial.checkpoint.as_directory() as folder:
                self._experiments[trial].log_asset_folder(folder)

    def log_trial_end(self, trial: TrialLike, failed: bool = False) -> None:
        experiment = self._experiments.pop(trial, None)
        if experiment is not None:
            experiment.end()

    def __del__(self) -> None:
        # Without any attribute, if it was given what it does not take.
        for experiment in vars(self).pop("_experiments", {}).values():
            experiment.end()


def _is_one_of(names: tuple[str, ...], name: str) -> bool:
    """Return whether a metric is one of these, or a part of one."""
    return name in names or any(name.startswith(f"{one}/") for one in names)
