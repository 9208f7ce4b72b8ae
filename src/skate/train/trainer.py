"""The trainer of Ray 1.x, which is started and then runs any number of loops.

The base of all trainers is here under one more path.

trainer = Trainer(backend="torch", num_workers=2)
trainer.start()
losses = trainer.run(loop, config={"lr": 0.1})      # what the loop returned, by rank
trainer.shutdown()
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skate._core.public_names import name_publicly
from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig, FailureConfig, RunConfig
from skate._run.config_checks import default_storage_path
from skate._run.result import Result
from skate._run.scaling_config import ScalingConfig
from skate._run.types import Config
from skate.train._controller import TrainPlan
from skate.train._iterator import IncomingReports, TrainingIterator
from skate.train._trial import TrainerTrial
from skate.train._workers.group import WorkerGroup
from skate.train._workers.worker import TrainWorker, call_loop, takes_config
from skate.train.backend import BackendConfig
from skate.train.base_trainer import BaseTrainer, TrainingFailedError
from skate.train.data_parallel_trainer import DataParallelTrainer

CheckpointStrategy = CheckpointConfig

__all__ = [
    "BaseTrainer",
    "CheckpointStrategy",
    "Trainer",
    "TrainingFailedError",
    "TrainingIterator",
]


class Trainer:
    """Run loops on workers, as until Ray 2.0.

    Each run has new processes; between runs nothing is reserved.

    Args:
        backend: "torch", "tensorflow" or a BackendConfig: how the workers find each other.
        num_workers: How many there are.
        use_gpu: Whether each of them gets a GPU.
        resources_per_worker: What else each of them gets.
        logdir: The folder that has a folder run_001, … for each run; by default one in
            `~/skate_results`.
        max_retries: How often workers that die are replaced; -1 for without end. What a loop
            raises is raised at once.

    Raises:
        ValueError: If `num_workers` is not above 0.
    """

    def __init__(
        self,
        backend: str | BackendConfig,
        num_workers: int,
        use_gpu: bool = False,
        resources_per_worker: dict[str, float] | None = None,
        logdir: str | os.PathLike[str] | None = None,
        max_retries: int = 3,
    ) -> None:
        if num_workers <= 0:
            raise ValueError(f"num_workers is above 0; got {num_workers}")
        self._backend = _backend_config(backend)
        self._scaling = ScalingConfig(
            num_workers=num_workers, use_gpu=use_gpu, resources_per_worker=resources_per_worker
        )
        name = os.fspath(logdir) if logdir else time.strftime("train_%Y-%m-%d_%H-%M-%S")
        self.logdir: Path = Path(default_storage_path(), os.path.expanduser(name)).resolve()
        self._max_retries = max_retries
        self._hook: Callable[[], None] | None = None
        self._started = False
        self._runs = 0
        self._incoming: IncomingReports | None = None
        self._strategy = CheckpointConfig()

    def start(self, initialization_hook: Callable[[], None] | None = None) -> None:
        """Allow runs.

        Args:
            initialization_hook: What is called in each worker, before its loop.
        """
        self._hook, self._started = initialization_hook, True

    def shutdown(self) -> None:
        """End this trainer: no more runs; one that is under way ends at its next report."""
        self._started = False
        if self._incoming is not None:
            self._incoming.stopped.set()

    # -- running --------------------------------------------------------------------------------

    def run(
        self,
        train_func: Callable[..., object],
        config: Config | None = None,
        callbacks: Sequence[Any] | None = None,
        dataset: Any = None,
        checkpoint: Any = None,
        checkpoint_strategy: CheckpointConfig | None = None,
    ) -> list[Any]:
        """Run a loop in all workers, and return what it returned in each.

        Args:
            train_func: The loop: a function without arguments, or of its configuration.
            config: That configuration.
            callbacks: Those of train.callbacks, of one's own (TrainingCallback), or loggers.
            dataset: A dataset, which workers share out as "train", or several by their names.
            checkpoint: What to go on from: a dictionary of values, a checkpoint, or its path.
            checkpoint_strategy: Which checkpoints are kept; by default all.

        Raises:
            RuntimeError: If `start` was not called.
        """
        told = [one for one in callbacks or () if hasattr(one, "handle_result")]
        loggers = [one for one in callbacks or () if not hasattr(one, "handle_result")]
        iterator = self._begin(
            train_func, config, dataset, checkpoint, checkpoint_strategy, loggers
        )
        run_dir, failed = str(self.latest_run_dir), True
        for callback in told:
            callback.start_training(logdir=run_dir, config=config or {})
        try:
            for results in iterator:
                for callback in told:
                    callback.handle_result(results)
            failed = False
        finally:
            for callback in told:
                callback.finish_training(error=failed, run_dir=run_dir)
        return iterator.get_final_results() or []

    def run_iterator(
        self,
        train_func: Callable[..., object],
        config: Config | None = None,
        dataset: Any = None,
        checkpoint: Any = None,
        checkpoint_strategy: CheckpointConfig | None = None,
    ) -> TrainingIterator:
        """Begin a loop, and return an iterator over its reports.

        Args:
            train_func: The loop: a function without arguments, or of its configuration.
            config: That configuration.
            dataset: A dataset, which workers share out as "train", or several by their names.
            checkpoint: What to go on from: a dictionary of values, a checkpoint, or its path.
            checkpoint_strategy: Which checkpoints are kept; by default all.

        Returns:
            An iterator over lists with one dictionary per worker; its `get_final_results` returns
            what `run` does.

        Raises:
            RuntimeError: If `start` was not called.
        """
        return self._begin(train_func, config, dataset, checkpoint, checkpoint_strategy, [])

    def _begin(
        self,
        train_func: Callable[..., object],
        config: Config | None,
        dataset: object,
        checkpoint: object,
        strategy: CheckpointConfig | None,
        loggers: list[object],
    ) -> TrainingIterator:
        if not self._started:
            raise RuntimeError("this Trainer is not active: call start() first")
        takes_config(train_func)
        self._runs = self._next_run()
        self._strategy, self._incoming = strategy or CheckpointConfig(), IncomingReports()
        loop = train_func if self._hook is None else _Hooked(self._hook, train_func)
        trainer = self._trainer(loop, dataset, config)
        trainer.resume_from_checkpoint = _as_checkpoint(checkpoint)
        name = f"run_{self._runs:03d}"
        trainer.run_config = RunConfig(
            name=name,
            storage_path=str(self.logdir),
            failure_config=FailureConfig(max_failures=self._max_retries),
            checkpoint_config=replace(self._strategy),
            callbacks=[self._incoming, *loggers],
            stop=self._incoming.should_stop,
            verbose=0,
        )
        os.makedirs(self.logdir / name, exist_ok=True)
        return TrainingIterator(trainer.fit, self._incoming)

    def _next_run(self) -> int:
        """Find the next number whose folder no earlier program has used: that run is over."""
        number = self._runs + 1
        while (self.logdir / f"run_{number:03d}").exists():
            number += 1
        return number

    def _trainer(
        self, loop: Callable[..., object], dataset: object, config: Any = None
    ) -> _LoopTrainer:
        datasets = dataset if isinstance(dataset, dict) or dataset is None else {"train": dataset}
        return _LoopTrainer(
            loop,
            train_loop_config=config,
            backend_config=self._backend,
            scaling_config=self._scaling,
            datasets=datasets,
        )

    # -- what came of it ------------------------------------------------------------------------

    @property
    def latest_run_dir(self) -> Path | None:
        """The folder of the last run."""
        return self.logdir / f"run_{self._runs:03d}" if self._runs else None

    latest_checkpoint_dir = latest_run_dir

    @property
    def latest_checkpoint(self) -> dict[str, Any] | None:
        """The values of the last run's last checkpoint."""
        found = self._incoming.checkpoint if self._incoming is not None else None
        return None if found is None else found.to_dict()

    @property
    def best_checkpoint_path(self) -> Path | None:
        """The folder of the last run's best checkpoint by the strategy; else of the last one."""
        found = self._incoming.checkpoint if self._incoming is not None else None
        score = self._strategy.checkpoint_score_attribute
        if found is not None and score is not None:
            result = Result.from_path(str(self.latest_run_dir))
            found = result.get_best_checkpoint(score, self._strategy.checkpoint_score_order)
        return None if found is None else Path(found.path)

    @property
    def best_checkpoint(self) -> dict[str, Any] | None:
        """The values of the best checkpoint."""
        path = self.best_checkpoint_path
        return None if path is None else self.load_checkpoint_from_path(path)

    @staticmethod
    def load_checkpoint_from_path(
        checkpoint_file_path: str | os.PathLike[str],
    ) -> dict[str, Any]:
        """Return the values of a checkpoint.

        Args:
            checkpoint_file_path: Its folder.
        """
        return Checkpoint(os.fspath(checkpoint_file_path)).to_dict()

    # -- other uses -----------------------------------------------------------------------------

    def to_tune_trainable(self, train_func: Callable[..., object], dataset: Any = None) -> Any:
        """Make a trainable for `tune.run`, whose configuration is that of the loop.

        Args:
            train_func: The loop.
            dataset: A dataset, which workers share out as "train", or several by their names.

        Raises:
            RuntimeError: If `start` was called.
        """
        self._check_not_started("to_tune_trainable")
        return _LoopTrial(self._trainer(train_func, dataset))

    def to_worker_group(self, train_cls: type, *args: Any, **kwargs: Any) -> TrainWorkerGroup:
        """Start actors of one's own class whose processes have found each other.

        Args:
            train_cls: The class, a plain one.
            args: What each is made with.
            kwargs: What each is made with, by keyword.

        Returns:
            A sequence of the actors' handles.

        Raises:
            RuntimeError: If `start` was called.
        """
        self._check_not_started("to_worker_group")
        return TrainWorkerGroup(self._scaling, self._backend, train_cls, args, kwargs)

    def _check_not_started(self, method: str) -> None:
        if self._started:
            raise RuntimeError(f"{method}() is for a Trainer that is not active: shut it down")


class TrainWorkerGroup:
    """A sequence of actors."""

    def __init__(
        self, scaling: ScalingConfig, config: BackendConfig, kind: type, args: Any, kwargs: Any
    ) -> None:
        own: Any = kind
        worker_cls: Any = config.backend_cls.worker_cls or TrainWorker

        def init(self: Any) -> None:
            worker_cls.__init__(self)
            own.__init__(self, *args, **kwargs)

        both: Any = type(kind.__name__, (own, worker_cls), {"__init__": init})
        self._group = WorkerGroup(scaling, worker_cls=both)
        try:
            config.backend_cls().on_start(self._group, config)
        except BaseException:
            self._group.shutdown()
            raise

    def __getitem__(self, number: int) -> Any:
        return self._group.workers[number]

    def __len__(self) -> int:
        return len(self._group)

    def shutdown(self, patience_s: float = 5) -> None:
        """End the actors at once: they are asked for nothing that `patience_s` would be for."""
        self._group.shutdown()


class _LoopTrainer(DataParallelTrainer):
    def _plan(self, datasets: dict[str, object]) -> TrainPlan:
        return replace(super()._plan(datasets), all_values=True, retries_errors=False)


class _LoopTrial(TrainerTrial):
    def __init__(self, trainer: DataParallelTrainer) -> None:
        super().__init__(trainer)
        self.__name__ = getattr(trainer._train_loop_per_worker, "__name__", self.__name__)

    def default_resource_request(self, config: Config) -> Any:
        return super().default_resource_request({})

    def __call__(self, config: Config) -> None:
        super().__call__({"train_loop_config": config})


class _Hooked:
    def __init__(self, hook: Callable[[], None], loop: Callable[..., object]) -> None:
        self._hook, self._loop = hook, loop

    def __call__(self, config: Config) -> Any:
        self._hook()
        return call_loop(self._loop, config)


def _backend_config(backend: object) -> BackendConfig:
    if isinstance(backend, BackendConfig):
        return backend
    if backend == "torch":
        from skate.train.torch import TorchConfig

        return TorchConfig()
    if backend == "tensorflow":
        from skate.train.tensorflow import TensorflowConfig

        return TensorflowConfig()
    kind = ValueError if isinstance(backend, str) else TypeError
    raise kind(
        f"backend is 'torch', 'tensorflow' or a BackendConfig; got {backend!r} (Ray has dropped "
        f"'horovod': 'torch' does the same with DistributedDataParallel)"
    )


def _as_checkpoint(given: Any) -> Checkpoint | None:
    if given is None or isinstance(given, Checkpoint):
        return given
    return Checkpoint.from_dict(given) if isinstance(given, dict) else Checkpoint(os.fspath(given))


name_publicly(__name__, TrainingIterator)
