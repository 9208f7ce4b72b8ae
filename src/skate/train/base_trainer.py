"""What all trainers have in common."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import cloudpickle

from skate._core.nearest import SpelledOut
from skate._run.checkpoint import Checkpoint, check_metadata
from skate._run.config import CheckpointConfig, RunConfig
from skate._run.config_checks import WrongKindError, as_config
from skate._run.pickles import unpickle
from skate._run.result import Result
from skate._run.scaling_config import ScalingConfig
from skate._run.storage import Storage
from skate.train._data import DataConfig, check_datasets, checked_datasets
from skate.train._errors import TrainingFailedError
from skate.train._recorder import TRAINER_FILE, Recorder

if TYPE_CHECKING:
    from typing_extensions import Self

    from skate.data.preprocessor import Preprocessor

__all__ = ["BaseTrainer", "TrainingFailedError"]


class BaseTrainer(SpelledOut):
    """Train in a worker process: the base for trainers of one's own.

    Override `training_loop`, which runs in a worker process and calls `train.report`. `setup` and
    `preprocess_datasets` are called there before it.

    Args:
        scaling_config: What the worker process gets, as `trainer_resources`.
        run_config: Where the run goes, what happens when it fails, and who is told.
        datasets: By name, for `training_loop`.
        preprocessor: Is fitted to the "train" dataset and applied to all.
        resume_from_checkpoint: What the training begins with.
        metadata: What `get_context().get_metadata()` gives, and notes of each checkpoint.
    """

    _recorder_class: Any = Recorder
    _is_restored = False  # made by `restore`, to go on with a run
    _allow_pickle = False  # whether pickles of others may be read when the run goes on
    # Trainers written for Ray add to it what they take of a ScalingConfig.
    _scaling_config_allowed_keys: ClassVar[list[str]] = ["trainer_resources"]

    def __init__(
        self,
        *,
        scaling_config: ScalingConfig | Mapping[str, object] | None = None,
        run_config: RunConfig | Mapping[str, object] | None = None,
        datasets: Mapping[str, object] | None = None,
        preprocessor: Preprocessor | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        if resume_from_checkpoint is not None and not isinstance(
            resume_from_checkpoint, Checkpoint
        ):
            raise ValueError(
                "resume_from_checkpoint is a Checkpoint; got "
                f"{type(resume_from_checkpoint).__name__}: {resume_from_checkpoint!r}"
            )
        if preprocessor is not None and not hasattr(preprocessor, "transform"):
            raise WrongKindError(
                "preprocessor is one of skate.data.preprocessors, or a Preprocessor of your own; "
                f"got {type(preprocessor).__name__}: {preprocessor!r}"
            )
        if metadata is not None and not isinstance(metadata, dict):
            raise TypeError(f"metadata is a dict; got {type(metadata).__name__}: {metadata!r}")
        check_metadata(metadata or {})
        check_datasets(datasets)
        self.scaling_config: ScalingConfig = as_config(ScalingConfig, scaling_config)
        self.run_config: RunConfig = as_config(RunConfig, run_config)
        self.datasets: dict[str, Any] = dict(datasets or {})
        self.preprocessor = preprocessor
        self.resume_from_checkpoint = resume_from_checkpoint
        self.starting_checkpoint = resume_from_checkpoint
        self.metadata: dict[str, Any] = metadata or {}

    def setup(self) -> None:
        """Set up what the trainer needs, before anything else in the worker."""

    def preprocess_datasets(self) -> None:
        """Transform the datasets with the preprocessor."""
        self.datasets = DataConfig().prepared(checked_datasets(self.datasets), self.preprocessor)

    def training_loop(self) -> None:
        """Train. Override it."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to train")

    def fit(self) -> Result:
        """Train; returns when it is done. Raises TrainingFailedError if it fails."""
        from skate.train.data_parallel_trainer import DataParallelTrainer

        resources = self.scaling_config.trainer_resources
        alone = DataParallelTrainer(
            copy.copy(self)._in_worker,
            scaling_config=ScalingConfig(
                num_workers=0 if self.scaling_config.num_workers == 0 else 1,
                use_gpu=bool((resources or {}).get("GPU")),
                resources_per_worker=resources,
            ),
            run_config=self.run_config,
            resume_from_checkpoint=self.resume_from_checkpoint,
            metadata=self.metadata,
        )
        alone._recorder_class = self._recorder_class
        alone._allow_pickle = self._allow_pickle
        return alone.fit()

    def _in_worker(self) -> None:
        self.setup()
        self.preprocess_datasets()
        self.training_loop()

    # -- going on -------------------------------------------------------------------------------

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        *,
        storage_filesystem: Any = None,
        allow_pickle: bool = False,
        **changes: Any,
    ) -> Self:
        """Make the trainer of a run that was interrupted; its `fit` goes on.

        Args:
            path: The run's folder, storage_path/name.
            storage_filesystem: The Arrow file system that `path` is on, if not this machine's.
            allow_pickle: Whether to go on with a run that this user has not begun on this
                machine, which runs whatever code its pickles contain.
            **changes: Replace what the trainer had, by the names of its attributes, as `datasets`.

        Raises:
            ValueError: If there is no run of such a trainer.
            UntrustedPickleError: If it is the run of somebody else, and that is not allowed.
        """
        storage = Storage.at(path, storage_filesystem)
        trainer = _trainer_in(storage, allow_pickle)
        if not isinstance(trainer, cls):
            found = "none" if trainer is None else f"a {type(trainer).__name__}"
            raise ValueError(f"no {cls.__name__} can be restored from {storage.path!r}: {found}")
        unknown = [name for name in changes if not hasattr(trainer, name)]
        if unknown:
            raise TypeError(f"{cls.__name__} has no {unknown} to replace")
        vars(trainer).update(changes, _allow_pickle=allow_pickle, _is_restored=True)
        trainer.run_config = in_folder(trainer.run_config, storage)
        return trainer

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> bool:
        """Return whether there is a run in a folder.

        Args:
            path: The folder, or its URI.
            storage_filesystem: The Arrow file system that `path` is on, if not this machine's.
        """
        return Storage.at(path, storage_filesystem).exists(TRAINER_FILE)

    def _saving_as(self, keep: CheckpointConfig) -> tuple[BaseTrainer, CheckpointConfig]:
        """Return a trainer that saves as often as a search asks for, and what is left of that."""
        return self, keep

    def as_trainable(self) -> Any:
        """Return a function for the tuner that trains with a trial's configuration.

        The parts of that (`train_loop_config`, `scaling_config`, …) take the place of the
        trainer's own.
        """
        from skate.train._trial import TrainerTrial

        return TrainerTrial(self)

    def _check_space(self, space: Mapping[str, object]) -> None:
        """Refuse a search space whose names are no parameters of this trainer."""
        from skate.train._trial import check_names

        check_names(self, space)

    def __repr__(self) -> str:
        shown = {"scaling_config": self.scaling_config, "run_config": self.run_config}
        given = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"<{type(self).__name__} {given}>"


def in_folder(run_config: RunConfig, storage: Storage) -> RunConfig:
    """Return the configuration of a run that goes on in this folder."""
    place, _, name = storage.path.rpartition("/")
    return replace(
        run_config,
        name=name,
        storage_path=place,
        storage_filesystem=None if storage.is_local else storage.filesystem,
    )


def saved_trainer(storage: Storage, allow_pickle: bool) -> dict[str, Any]:
    """Read what is kept of the trainer of a run: its parameters, each pickled, in "kept"."""
    place = f"{storage.path}/{TRAINER_FILE}"
    saved: dict[str, Any] = unpickle(storage.read(TRAINER_FILE), place, allow_pickle)
    return saved


def _trainer_in(storage: Storage, allow_pickle: bool) -> Any:
    """Return the trainer whose own loop was run there, if one was."""
    if not storage.exists(TRAINER_FILE):
        return None
    loop = saved_trainer(storage, allow_pickle)["kept"]["train_loop_per_worker"]
    return getattr(cloudpickle.loads(loop), "__self__", None) if loop else None
