"""A trainer as a trial of tuning: its reports become those of the trial."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig, FailureConfig, RunConfig
from skate._run.folders import scratch_dir
from skate._run.reporting import Report
from skate._run.result import Result
from skate._run.scaling_config import ScalingConfig
from skate._run.session import RunSession, current
from skate._run.types import Config, ResultRow
from skate.train._recorder import Recorder
from skate.train._workers.events import Event

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor
    from skate.train.base_trainer import BaseTrainer

WORKERS = "workers-"  # begins the name of a folder that is there while they run
CHANGEABLE = ("train_loop_config", "scaling_config", "datasets", "params")


class TrainerTrial:
    """A function of a trial's configuration. The trial itself needs no resources beside those of
    its workers (`resources`)."""

    resources = {"CPU": 0}  # noqa: RUF012 - the workers reserve theirs when they start
    reserves_itself = True

    def __init__(self, trainer: BaseTrainer) -> None:
        self.trainer = trainer
        self.__name__ = type(trainer).__name__

    def default_resource_request(self, config: Config) -> Any:
        """Return the resources of its workers, with what the trial's configuration says about
        them."""
        own = self.trainer.scaling_config
        scaling = config.get("scaling_config", own)
        if isinstance(scaling, Mapping):
            scaling = replace(own, **scaling)
        return scaling.as_placement_group_factory()

    def saving_as(self, keep: CheckpointConfig) -> tuple[TrainerTrial, CheckpointConfig]:
        """Return one whose trainer saves as a search says, and what is left of that.

        Args:
            keep: What it says.
        """
        own = copy.copy(self)  # other searches may have this one
        own.trainer, rest = self.trainer._saving_as(keep)
        return own, rest

    def __call__(self, config: Config) -> None:
        outer = current("a trainer's trial")
        trainer = changed(self.trainer, config)
        trainer.scaling_config = scaled(trainer.scaling_config, outer.info.trial_resources)
        trainer.starting_checkpoint = trainer.resume_from_checkpoint = (
            outer.get_checkpoint() or trainer.resume_from_checkpoint
        )
        with _own_folder(outer) as folder:
            trainer.run_config = replace(
                trainer.run_config,
                name="run", storage_path=folder, storage_filesystem=None, local_dir=None,
                callbacks=None, stop=None, verbose=0, failure_config=FailureConfig(),
                checkpoint_config=CheckpointConfig(num_to_keep=1),
            )  # fmt: skip
            trainer._recorder_class = ForwardingRecorder
            trainer.fit()


def _own_folder(session: RunSession) -> tempfile.TemporaryDirectory[str]:
    """Make a folder for the run in the trial's, if that is on this machine. What an attempt that
    was killed has left there is deleted."""
    place = session.info.trial_dir
    if not place or not os.path.isdir(place):
        return tempfile.TemporaryDirectory(prefix=WORKERS, dir=scratch_dir())
    for left in Path(place).glob(f"{WORKERS}*"):
        shutil.rmtree(left, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix=WORKERS, dir=place)


def check_names(trainer: BaseTrainer, names: Iterable[str]) -> None:
    """Refuse what is no parameter of a trainer, in a trial's configuration or a search space."""
    names = list(names)
    if "run_config" in names:
        raise ValueError(
            "run_config is the same for all trials, so it cannot be tuned: give it to the Tuner, "
            "Tuner(trainer, run_config=RunConfig(…))"
        )
    unknown = [name for name in names if name not in CHANGEABLE and not hasattr(trainer, name)]
    if unknown:
        raise ValueError(
            f"a trainer has no {unknown} to tune; it has {CHANGEABLE}, as in "
            '{"train_loop_config": {"lr": tune.uniform(0, 1)}}'
        )


def changed(trainer: BaseTrainer, config: Config) -> BaseTrainer:
    """Copy the trainer with what the trial's configuration says."""
    check_names(trainer, config)
    fresh = copy.copy(trainer)
    for name, value in config.items():
        before = getattr(fresh, name, None)
        if isinstance(value, dict) and isinstance(before, dict):
            value = _merged(before, value)
        elif isinstance(value, dict) and before is not None:
            value = replace(before, **value)
        setattr(fresh, name, value)
    return fresh


def scaled(scaling: ScalingConfig, resources: Any) -> ScalingConfig:
    """Return the configuration with as many workers as a trial's resources are for: a scheduler
    may have changed them since the trainer was made.

    Args:
        scaling: What the trainer says.
        resources: The bundle of the trainer, then one per worker; None for what it says.
    """
    workers = resources.bundles[0 if resources.head_bundle_is_empty else 1 :] if resources else []
    if scaling.elasticity_enabled or not workers:
        return scaling
    if resources == scaling.as_placement_group_factory():
        return scaling
    given = ScalingConfig.from_placement_group_factory(resources)
    return replace(
        scaling,
        trainer_resources=given.trainer_resources,
        num_workers=given.num_workers,
        use_gpu=given.use_gpu,
        resources_per_worker=given.resources_per_worker,
    )


def _merged(before: dict[str, object], changes: dict[str, object]) -> dict[str, Any]:
    """Merge changes into dicts inside of dicts."""
    merged = dict(before)
    for name, value in changes.items():
        inner = before.get(name)
        if isinstance(value, dict) and isinstance(inner, dict):
            value = _merged(inner, value)
        merged[name] = value
    return merged


class ForwardingRecorder(Recorder):
    """Hands what is reported to the trial, which keeps the books."""

    def __init__(
        self,
        name: str,
        run_config: RunConfig,
        config: Any,
        preprocessor: Preprocessor | None = None,
    ) -> None:
        super().__init__(name, run_config, config, preprocessor, loggers=[])
        self._trial: RunSession = current("a trainer's trial")
        self._unreported: Checkpoint | None = None  # saved alone; its metrics are yet to come

    def record(self, events: Sequence[Event]) -> Checkpoint | None:
        checkpoint = super().record(events)
        self._unreported = checkpoint or self._unreported
        if events[0].metrics is not None:
            self._hand_over(events[0].metrics)
        return checkpoint

    def close(self, error: BaseException | None = None, value: object = None) -> Result:
        if error is None and self._unreported is not None:
            self._hand_over(None)
        return super().close(error, value)

    def _hand_over(self, metrics: ResultRow | None) -> None:
        checkpoint, self._unreported = self._unreported, None
        if checkpoint is not None:  # its worker has signed what is its own
            checkpoint._note_foreign()
        self._trial.report(Report(metrics, checkpoint))
