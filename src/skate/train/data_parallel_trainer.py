"""The trainer that all others are made of: one loop, on several workers at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import cloudpickle

from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig, RunConfig, ScalingConfig, as_config
from skate._run.result import Result
from skate._run.storage import Storage
from skate.train._controller import Controller, Plan
from skate.train._data import as_data_config, checked_datasets, preprocessed
from skate.train._group import WorkerGroup
from skate.train._local import run_here
from skate.train._recorder import TRAINER_FILE, Recorder, new_name
from skate.train._view import View
from skate.train._worker import takes_config
from skate.train.backend import BackendConfig
from skate.train.base_trainer import BaseTrainer

AnyTrainer = TypeVar("AnyTrainer", bound="DataParallelTrainer")


class DataParallelTrainer(BaseTrainer):
    """Runs `train_loop_per_worker` in each worker, with `train_loop_config` if it takes one.

    `backend_config` says how the workers find each other. `datasets` are split between them (see
    `DataConfig`), after `preprocessor`, if there is one, has been fitted to the "train" one.
    `resume_from_checkpoint` is what `get_checkpoint()` gives at the start of a new run. `metadata`
    is what `get_context().get_metadata()` gives.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        backend_config: BackendConfig | None = None,
        scaling_config: ScalingConfig | dict[str, Any] | None = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: Any = None,
        preprocessor: Any = None,
        resume_from_checkpoint: Checkpoint | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        takes_config(train_loop_per_worker)
        super().__init__(
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            preprocessor=preprocessor,
            resume_from_checkpoint=resume_from_checkpoint,
            metadata=metadata,
        )
        self.train_loop_per_worker = train_loop_per_worker
        self.train_loop_config = train_loop_config
        self.backend_config = backend_config or BackendConfig()
        self.data_config = as_data_config(dataset_config)

    # -- running --------------------------------------------------------------------------------

    def fit(self) -> Result:
        """Train; returns when it is done. Raises TrainingFailedError when workers fail more often
        than `FailureConfig` allows. A run whose folder exists already goes on from its last
        checkpoint."""
        check_run_config(self.run_config)
        name = self.run_config.name or new_name(type(self).__name__)
        datasets = preprocessed(checked_datasets(self.datasets), self.preprocessor)
        config = self.train_loop_config or {}
        recorder = self._recorder_class(name, self.run_config, config, self.preprocessor)
        recorder.storage.write(TRAINER_FILE, self._pickled(name))
        view = View(self.run_config.verbose, name)
        try:
            return self._run(recorder, view, datasets)
        finally:
            view.close()

    def _run(self, recorder: Recorder, view: View, datasets: dict[str, Any]) -> Result:
        plan = self._plan(datasets)
        if self.scaling_config.num_workers == 0:
            (share,) = self._shards(datasets, 1, recorder.positions)
            return run_here(plan, recorder, view, share)
        return Controller(plan, recorder, view).run()

    def _shards(
        self, datasets: dict[str, Any], size: int, positions: Any, workers: Any = None
    ) -> list[dict[str, Any]]:
        if not datasets:
            return [{} for _ in range(size)]
        from skate.train._shards import going_on

        shares = self.data_config.configure(
            datasets, size, worker_handles=workers, worker_node_ids=None
        )
        return going_on(shares, positions)

    def _plan(self, datasets: dict[str, Any]) -> Plan:
        def shards(group: WorkerGroup, positions: Any) -> list[dict[str, Any]]:
            return self._shards(datasets, len(group), positions, group.workers)

        assert self.run_config.failure_config is not None
        return Plan(
            loop=self.train_loop_per_worker,
            config=self.train_loop_config or {},
            scaling=self.scaling_config,
            failure=self.run_config.failure_config,
            backend=self.backend_config,
            shards=shards,
            checkpoint=self.resume_from_checkpoint,
            metadata=self.metadata,
        )

    def get_dataset_config(self) -> Any:
        """How datasets are split."""
        return self.data_config

    # -- going on -------------------------------------------------------------------------------

    _kept = (
        "train_loop_per_worker", "train_loop_config", "backend_config", "scaling_config",
        "run_config", "data_config", "preprocessor", "resume_from_checkpoint", "metadata",
    )  # fmt: skip

    def _pickled(self, name: str) -> bytes:
        """All but the datasets, which may be too large, or of this process alone."""
        state = {attribute: getattr(self, attribute) for attribute in self._kept}
        state["name"] = name
        state["dataset_names"] = sorted(self.datasets)
        try:
            data: bytes = cloudpickle.dumps(state)
        except Exception:  # then restore needs the loop, as it says
            plain = {"name": name, "dataset_names": state["dataset_names"]}
            data = cloudpickle.dumps(plain)
        return data

    @classmethod
    def restore(
        cls: type[AnyTrainer],
        path: str | os.PathLike[str],
        train_loop_per_worker: Callable[..., Any] | None = None,
        train_loop_config: dict[str, Any] | None = None,
        storage_filesystem: Any = None,
        **changes: Any,
    ) -> AnyTrainer:
        """The trainer of a run that was interrupted, from the run's folder: its `fit` goes on from
        the last checkpoint. What is given replaces what was kept; datasets are not kept, and must
        be given again."""
        storage = Storage.at(path, storage_filesystem)
        if not storage.exists(TRAINER_FILE):
            raise ValueError(f"there is no trainer to restore in {storage.path!r}")
        state: dict[str, Any] = cloudpickle.loads(storage.read(TRAINER_FILE))
        given = {
            "train_loop_per_worker": train_loop_per_worker,
            "train_loop_config": train_loop_config,
            **changes,
        }
        state.update({name: value for name, value in given.items() if value is not None})
        missing = [
            name for name in state["dataset_names"] if name not in (given.get("datasets") or {})
        ]
        if missing:
            raise ValueError(
                f"the run had the datasets {missing}: give them again, datasets={{…}}"
            )
        if "train_loop_per_worker" not in state:
            raise ValueError("the loop could not be kept: give train_loop_per_worker again")
        return cls._from_state(state, storage)

    @classmethod
    def _from_state(cls: type[AnyTrainer], state: dict[str, Any], storage: Storage) -> AnyTrainer:
        trainer = cls.__new__(cls)
        DataParallelTrainer.__init__(
            trainer,
            state["train_loop_per_worker"],
            train_loop_config=state.get("train_loop_config"),
            backend_config=state.get("backend_config"),
            scaling_config=state.get("scaling_config"),
            run_config=state.get("run_config"),
            datasets=state.get("datasets"),
            dataset_config=state.get("dataset_config", state.get("data_config")),
            preprocessor=state.get("preprocessor"),
            resume_from_checkpoint=state.get("resume_from_checkpoint"),
            metadata=state.get("metadata"),
        )
        run = trainer.run_config
        run.storage_path, _, run.name = storage.path.rpartition("/")
        run.storage_filesystem = None if storage.is_local else storage.filesystem
        return trainer

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> bool:
        """Whether there is a run in this folder."""
        return Storage.at(path, storage_filesystem).exists(TRAINER_FILE)


def check_run_config(run: RunConfig) -> None:
    """Refuse what only a tuner can do."""
    if run.log_to_file or run.progress_reporter is not None:
        raise ValueError(
            "log_to_file and progress_reporter are for tuning; a training run prints to this "
            "program's output, and verbose=2 gives a line per report"
        )
    keep = as_config(CheckpointConfig, run.checkpoint_config)
    if keep.checkpoint_frequency or keep.checkpoint_at_end:
        raise ValueError(
            "checkpoint_frequency and checkpoint_at_end are for trainables that save when asked; "
            "a training loop reports its checkpoints itself: train.report(…, checkpoint=…)"
        )
