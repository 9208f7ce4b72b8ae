"""The trainer that all others are made of: one loop, on several workers at once."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import cloudpickle

from skate._core import notices
from skate._core.errors import without_own_frames
from skate._core.nearest import unknown_parameter
from skate._core.signature import showing_keywords
from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig, FailureConfig, RunConfig
from skate._run.config_checks import as_config
from skate._run.errors import NothingToRestoreError
from skate._run.ledger import claimed
from skate._run.pickles import allowing, signed_pickle
from skate._run.result import Result
from skate._run.scaling_config import ScalingConfig
from skate._run.storage import Storage
from skate._run.types import Config
from skate._run.validation import ValidationConfig
from skate.train._controller import TrainController, TrainPlan
from skate.train._data import DataConfig, checked_datasets
from skate.train._dataset_config import as_data_config
from skate.train._early_start import expect_workers
from skate.train._errors import TrainingFailedError
from skate.train._local import run_here
from skate.train._recorder import TRAINER_FILE, Recorder, new_name
from skate.train._validation import Validator
from skate.train._view import View
from skate.train._workers.group import WorkerGroup
from skate.train._workers.worker import takes_config
from skate.train.backend import BackendConfig
from skate.train.base_trainer import BaseTrainer, in_folder, saved_trainer

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor


_DATA_MODULES = ("skate.data.iterator", "skate.train._shards")  # what parts of datasets are

AnyTrainer = TypeVar("AnyTrainer", bound="DataParallelTrainer")


class DataParallelTrainer(BaseTrainer):
    """Run a loop in each of several workers.

    Args:
        train_loop_per_worker: The loop: a function without arguments, or of its configuration.
        train_loop_config: That configuration.
        backend_config: How the workers find each other.
        scaling_config: How many workers, and what each gets.
        run_config: Where the run goes, what happens when it fails, and who is told.
        datasets: By name, for `get_dataset_shard(name)`; each worker gets a part.
        dataset_config: How they are split, a `DataConfig`; by default all of them are.
        preprocessor: Is fitted to the "train" dataset and applied to all; also goes into
            checkpoints.
        resume_from_checkpoint: What `get_checkpoint()` gives at the start of a new run.
        metadata: What `get_context().get_metadata()` gives, and notes of each checkpoint.
        validation_config: Validates checkpoints beside the training, where `report(…,
            validation=True)` asks for it.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If the loop takes more than one argument.

    Example:
        >>> def loop(config):
        ...     for step in range(config["steps"]):
        ...         skate.train.report({"step": step})
        >>> trainer = skate.train.DataParallelTrainer(
        ...     loop,
        ...     train_loop_config={"steps": 3},
        ...     scaling_config=skate.train.ScalingConfig(num_workers=2),
        ...     run_config=skate.train.RunConfig(verbose=0),
        ... )
        >>> trainer.fit().metrics["step"]
        2
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., object],
        *,
        train_loop_config: Config | None = None,
        backend_config: BackendConfig | None = None,
        scaling_config: ScalingConfig | Mapping[str, object] | None = None,
        run_config: RunConfig | Mapping[str, object] | None = None,
        datasets: Mapping[str, object] | None = None,
        dataset_config: DataConfig | Mapping[str, object] | None = None,
        preprocessor: Preprocessor | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        metadata: dict[str, Any] | None = None,
        validation_config: ValidationConfig | None = None,
    ) -> None:
        if not takes_config(train_loop_per_worker) and train_loop_config:
            notices.once(
                f"config of {train_loop_per_worker!r}",
                "the training loop takes no argument, and so does not see its train_loop_config: "
                f"write def {getattr(train_loop_per_worker, '__name__', 'loop')}(config)",
            )
        if train_loop_config is not None and not isinstance(train_loop_config, Mapping):
            raise TypeError(
                "train_loop_config is a dict, which train_loop_per_worker gets; "
                f"got {type(train_loop_config).__name__}: {train_loop_config!r}"
            )
        if backend_config is not None and not isinstance(backend_config, BackendConfig):
            raise TypeError(
                "the configuration of a back end, as TorchConfig(), is a BackendConfig; "
                f"got {type(backend_config).__name__}: {backend_config!r}"
            )
        super().__init__(
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            preprocessor=preprocessor,
            resume_from_checkpoint=resume_from_checkpoint,
            metadata=metadata,
        )
        self._train_loop_per_worker = train_loop_per_worker
        self.train_loop_config = train_loop_config
        if validation_config is not None and not isinstance(validation_config, ValidationConfig):
            raise TypeError(f"expected a ValidationConfig; got {validation_config!r}")
        self.validation_config = validation_config
        self.backend_config: BackendConfig = backend_config or BackendConfig()
        self.dataset_config: DataConfig = as_data_config(dataset_config, self.datasets)
        if self.scaling_config.num_workers != 0:
            expect_workers(
                ["skate.train._workers.worker", *(_DATA_MODULES if self.datasets else ())]
            )

    # -- running --------------------------------------------------------------------------------

    def fit(self) -> Result:
        """Train. A run whose folder exists already goes on from its last checkpoint.

        Returns:
            What the run came to, when it is done.

        Raises:
            TrainingFailedError: If workers fail more often than `FailureConfig` allows; also of
                the type that the loop raised.
            RuntimeError: If another program writes to the same folder.
        """
        check_run_config(self.run_config)
        _check_restart(self.run_config, self.backend_config)
        name = self.run_config.name or new_name(type(self).__name__)
        datasets = checked_datasets(self.datasets)
        datasets = self.dataset_config.prepared(datasets, self.preprocessor)
        config = self.train_loop_config or {}
        recorder = self._recorder_class(name, self.run_config, config, self.preprocessor)
        recorder.metadata = self.metadata
        recorder.run.scaling_config = self.scaling_config
        recorder.run.backend_config = self.backend_config
        recorder.run.dataset_config = self.dataset_config
        recorder.validator = Validator(recorder.ledger, self.validation_config)
        verbose = self.run_config.verbose
        with (
            allowing(self._allow_pickle),
            claimed(recorder.storage),
            recorder,
            closing(View(verbose, name)) as view,
        ):
            recorder.storage.write(TRAINER_FILE, self._pickled())
            if recorder.checkpoint is not None and not self._is_restored:
                view.goes_on(recorder.checkpoint.path.rpartition("/")[2])
            try:
                result = self._run(recorder, view, datasets)
            except TrainingFailedError as error:
                raise without_own_frames(error)
            view.finished(result)
            return result

    def _run(self, recorder: Recorder, view: View, datasets: dict[str, Any]) -> Result:
        plan = self._plan(datasets)
        if self.scaling_config.num_workers == 0:
            (share,) = self._shards(datasets, 1, recorder.positions)
            return run_here(plan, recorder, view, share)
        return TrainController(plan, recorder, view).run()

    def _shards(
        self, datasets: dict[str, Any], size: int, positions: Any, workers: Any = None
    ) -> list[dict[str, Any]]:
        own_way = type(self.dataset_config).configure is not DataConfig.configure
        if not datasets and not own_way:
            return [{} for _ in range(size)]
        from skate.train._shards import going_on

        shares = self.dataset_config.configure(
            datasets, size, worker_handles=workers, worker_node_ids=None
        )
        return going_on(shares, positions)

    def _plan(self, datasets: dict[str, Any]) -> TrainPlan:
        def shards(group: WorkerGroup, positions: object) -> list[dict[str, Any]]:
            return self._shards(datasets, len(group), positions, group.workers)

        assert self.run_config.failure_config is not None
        return TrainPlan(
            loop=self._train_loop_per_worker,
            config=self.train_loop_config or {},
            scaling=self.scaling_config,
            failure=self.run_config.failure_config,
            backend=self.backend_config,
            shards=shards,
            checkpoint=self.resume_from_checkpoint,
            metadata=self.metadata,
        )

    def get_dataset_config(self) -> Any:
        """Return how datasets are split."""
        return self.dataset_config

    # -- going on -------------------------------------------------------------------------------

    _kept = (
        "train_loop_per_worker", "train_loop_config", "backend_config", "scaling_config",
        "run_config", "dataset_config", "preprocessor", "resume_from_checkpoint", "metadata",
        "validation_config",
    )  # fmt: skip

    def _pickled(self) -> bytes:
        """Return all but the datasets, which may be too large, or of this process alone.

        What cannot be pickled is None, and `restore` asks for it.
        """
        # The loop has an underscore: a class of one's own may have a method of that name.
        at = {"train_loop_per_worker": "_train_loop_per_worker"}
        kept = {name: _pickled_or_none(getattr(self, at.get(name, name))) for name in self._kept}
        return signed_pickle({"kept": kept, "dataset_names": sorted(self.datasets)})

    @classmethod
    @showing_keywords(
        {
            **dict.fromkeys(_kept[2:], "Replaces what was kept."),
            "datasets": "Again, as they are not kept.",
        }
    )
    def restore(
        cls: type[AnyTrainer],
        path: str | os.PathLike[str],
        train_loop_per_worker: Callable[..., object] | None = None,
        train_loop_config: Config | None = None,
        storage_filesystem: Any = None,
        *,
        allow_pickle: bool = False,
        **changes: Any,
    ) -> AnyTrainer:
        """Make the trainer of a run that was interrupted; its `fit` goes on.

        Args:
            path: The run's folder, storage_path/name.
            train_loop_per_worker: Replaces the loop that was kept.
            train_loop_config: Replaces its configuration.
            storage_filesystem: The Arrow file system that `path` is on, if not this machine's.
            allow_pickle: Whether to go on with a run that this user has not begun on this
                machine, which runs whatever code its pickles contain.
            **changes: Replace what was kept, by the names of the trainer's own parameters;
                datasets are not kept, and must be given again.

        Raises:
            ValueError: If there is no run, or if something must be given again.
            UntrustedPickleError: If it is the run of somebody else, and that is not allowed.
        """
        storage = Storage.at(path, storage_filesystem)
        if not storage.exists(TRAINER_FILE):
            raise NothingToRestoreError(
                f"there is no trainer to restore in {storage.path!r}: give the folder of a run, "
                "storage_path/name, as Result.path says it"
            )
        saved = saved_trainer(storage, allow_pickle)
        loop = {
            "train_loop_per_worker": train_loop_per_worker,
            "train_loop_config": train_loop_config,
        }
        given = cls._by_our_names({**loop, **changes})
        missing = [n for n in saved["dataset_names"] if n not in given.get("datasets", ())]
        if missing:
            raise ValueError(
                f"the run had the datasets {missing}: give them again, datasets={{…}}"
            )
        lost = [name for name, data in saved["kept"].items() if not data and name not in given]
        if lost:
            raise ValueError(f"{lost} could not be kept with the run: give them to restore again")
        kept = {n: cloudpickle.loads(d) for n, d in saved["kept"].items() if n not in given}
        trainer = cls._in_folder({**kept, **given}, storage)
        trainer._allow_pickle, trainer._is_restored = allow_pickle, True
        return trainer

    @classmethod
    def _by_our_names(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return what is given, the configuration of the back end under that name."""
        own = {*cls._kept, "datasets"}
        parameters = inspect.signature(cls.__init__).parameters
        theirs = {name for name in parameters if name.endswith("_config")} - own
        for name in given:
            if name not in own | theirs:
                raise unknown_parameter(f"{cls.__name__}.restore", name, sorted(own | theirs))
        return {
            "backend_config" if name in theirs else name: value
            for name, value in given.items()
            if value is not None
        }

    @classmethod
    def _in_folder(cls: type[AnyTrainer], state: dict[str, Any], storage: Storage) -> AnyTrainer:
        trainer = cls.__new__(cls)
        DataParallelTrainer.__init__(trainer, **state)
        trainer.run_config = in_folder(trainer.run_config, storage)
        return trainer


def _pickled_or_none(value: object) -> bytes | None:
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception:  # something that only lives in this process
        return None
    return data


def check_run_config(run: RunConfig) -> None:
    """Refuse what only a tuner can do."""
    if run.log_to_file or run.progress_reporter is not None:
        raise ValueError(
            "log_to_file and progress_reporter are for tuning; a training run prints to this "
            "program's output, and verbose=2 gives a line per report"
        )
    if run.stop is not None and not callable(run.stop) and not _is_limits(run.stop):
        raise TypeError(
            "stop is a dict of limits by metric, as {'training_iteration': 10}, or a function of "
            f"the run's id and its last result; got {run.stop!r}"
        )
    keep = as_config(CheckpointConfig, run.checkpoint_config)
    if keep.checkpoint_frequency or keep.checkpoint_at_end:
        raise ValueError(
            "checkpoint_frequency and checkpoint_at_end are for trainables that save when asked; "
            "a training loop reports its checkpoints itself: train.report(…, checkpoint=…)"
        )


def _check_restart(run: RunConfig, backend: BackendConfig) -> None:
    failure = as_config(FailureConfig, run.failure_config)
    if failure.restart == "worker" and not backend.backend_cls.replaces_workers:
        raise ValueError(
            f"workers of {type(backend).__name__} cannot be replaced one by one: use "
            "FailureConfig(restart='group'), or a TorchTrainer"
        )


def _is_limits(stop: object) -> bool:
    return isinstance(stop, Mapping) and all(isinstance(n, (int, float)) for n in stop.values())
