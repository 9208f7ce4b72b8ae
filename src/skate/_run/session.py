"""The run that this process or thread works for.

`train.report`, `tune.report` and `air.session.report` are one function, `report` here: it reads
what was written in whichever spelling and hands it to the current session. A worker of training
and a trial of tuning each bring a session of their own.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from skate._core.signature import showing_keywords, shown_as
from skate._run.checkpoint import Checkpoint
from skate._run.context import SessionInfo, TrainContext
from skate._run.reporting import CheckpointUploadMode, Report, read_report
from skate._run.types import MetricsLike
from skate._run.validation import OwnValidation, ValidationTaskConfig
from skate._run.values import numbers_as_such


class SessionMisuseError(RuntimeError):
    """A function of training loops and trials was called elsewhere."""

    __module__ = "skate.train.error"  # where programs find it


class RunSession(ABC):
    """A worker's or a trial's side of a run."""

    replaces: bool = False  # whether workers that die are replaced one by one

    def __init__(
        self,
        info: SessionInfo,
        checkpoint: Checkpoint | None = None,
        datasets: Mapping[str, object] | None = None,
    ) -> None:
        self.info = info
        self.context: TrainContext = TrainContext(info)
        self.latest_checkpoint = checkpoint
        self.pending_checkpoint: str | None = None  # the last one, while it is being written
        self.datasets: dict[str, Any] = dict(datasets or {})
        self.began: float = time.time()
        self.process: int = os.getpid()

    @property
    def storage(self) -> Any:
        """The run's `Storage`: where its files go."""
        return self.info.storage

    @abstractmethod
    def report(self, report: Report) -> None:
        """Hand over metrics, a checkpoint, or both; returns when the run has them."""

    def check(self) -> None:  # noqa: B027 - most are told
        """Raise what has gone wrong in the run, if this side has to find out by itself."""

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Hand over a checkpoint whose metrics are yet to come."""
        self.report(Report(None, checkpoint))

    def get_checkpoint(self) -> Checkpoint | None:
        """Return the last checkpoint that was reported, or the one to begin with."""
        latest = self.latest_checkpoint
        if latest is not None:
            latest._note_foreign()
        return latest

    def get_dataset_shard(self, name: str | None = None) -> Any:
        if not self.datasets:
            raise RuntimeError("there are no datasets: give the trainer some with datasets={…}")
        if name is None:
            if len(self.datasets) > 1:
                raise RuntimeError(
                    f"there are several datasets, {sorted(self.datasets)}: say which one, "
                    f"get_dataset_shard({min(self.datasets)!r})"
                )
            return next(iter(self.datasets.values()))
        if name not in self.datasets:
            raise KeyError(f"there is no dataset {name!r}; there are {sorted(self.datasets)}")
        return self.datasets[name]


class _Current(threading.local):
    session: RunSession | None = None


_of_this_thread = _Current()
_of_this_process: list[RunSession] = []
_elsewhere: list[Callable[[], RunSession | None]] = []  # find the session of a launched process


def find_sessions_by(find: Callable[[], RunSession | None]) -> None:
    """Have a process without a session ask this for one."""
    _elsewhere.append(find)


@contextlib.contextmanager
def activated(session: RunSession) -> Iterator[RunSession]:
    """Make this the session of the thread, and of threads that it starts."""
    outer = _of_this_thread.session
    _of_this_thread.session = session
    _of_this_process.append(session)
    try:
        yield session
    finally:
        _of_this_thread.session = outer
        _of_this_process.remove(session)


def in_session() -> bool:
    """Return whether this is a training loop or a trial."""
    return _of_this_thread.session is not None or bool(_of_this_process)


def current(caller: str) -> RunSession:
    """Return the session of this thread or process; raise an error that names `caller`
    elsewhere."""
    if _of_this_thread.session is not None:
        return _of_this_thread.session
    if _of_this_process:
        return _of_this_process[-1]
    for find in _elsewhere:
        session = find()
        if session is not None:
            _of_this_process.append(session)
            return session
    raise SessionMisuseError(
        f"{caller} can only be used inside a training loop (the function given to a trainer) or "
        "a trial (the function given to a tuner), in the process that runs it. "
        "Call it there, run the function with trainer.fit() or tuner.fit(), or start the program "
        "with torchrun or `skate run`"
    )


def acting(caller: str) -> RunSession:
    """Return the session as `current` does, for what others of the run have to hear of.

    Raises:
        SessionMisuseError: Also in a process that was forked off: the connections of the run are
            its parent's, so that it would wait for ever.
    """
    session = current(caller)
    if session.process != os.getpid():
        raise SessionMisuseError(
            f"{caller} was called in process {os.getpid()}, which was forked off by process "
            f"{session.process}, and only that one can reach the run: hand over what is to be "
            "said, with a multiprocessing.Queue or a return value, and call it there"
        )
    return session


# -- what users call ------------------------------------------------------------------------------


@showing_keywords(())  # older spellings are for checkers, not for new programs
def _todays_report(
    metrics: MetricsLike | None = None,
    checkpoint: Checkpoint | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None,
    validation: bool | ValidationTaskConfig = False,
    **older: object,
) -> None:
    """Show what `report` takes today; older metrics by name may have any of these names."""


@shown_as(_todays_report)
def report(*args: object, **kwargs: object) -> None:
    """Report metrics, and a checkpoint if there is one.

    In training every worker calls it equally often; the metrics of rank 0 count. With a checkpoint
    it returns when all workers are here and the checkpoint is in the run's folder for good.

    Args:
        *args: The first two of the following.
        **kwargs: Any of the following.
        metrics: Numbers and other values by name, as in `report({"loss": 0.1})`. Earlier Rays took
            them as arguments, `report(loss=0.1)`, which is accepted too, but not both at once.
        checkpoint: What a run, or a trial, can go on from.
        checkpoint_dir_name: The name of its folder in the run's; by default its number.
        checkpoint_upload_mode: How it gets there; see `CheckpointUploadMode`.
        delete_local_checkpoint_after_upload: Whether the original is deleted then; by default
            that depends on the mode.
        checkpoint_upload_fn: Uploads the checkpoint, which it is given with its name, and returns
            the one at its new place.
        validation: Whether the checkpoint is validated, by the trainer's `validation_config`; or a
            `ValidationTaskConfig`.

    Raises:
        RuntimeError: If this is not a training loop or a trial.
        TypeError: If metrics or checkpoint are something else.
        ValueError: If a validation is asked for and the trainer cannot.

    Example:
        >>> def loop():
        ...     for epoch in range(3):
        ...         skate.train.report({"loss": 1 / (epoch + 1)})
        >>> quiet = skate.train.RunConfig(verbose=0)
        >>> result = skate.train.DataParallelTrainer(loop, run_config=quiet).fit()
        >>> round(result.metrics["loss"], 2)
        0.33
    """
    session = acting("report()")
    given = read_report(args, kwargs)
    own = isinstance(given.validation, OwnValidation)
    if given.validation and not own and not session.info.validates:
        raise ValueError(
            "`validation_config` was not set on the trainer, but report(validation=…) asks for a "
            "validation: TorchTrainer(…, validation_config=ValidationConfig(fn))"
        )
    given.metrics = numbers_as_such(given.metrics or {})
    session.report(given)


def get_checkpoint() -> Checkpoint | None:
    """Return the checkpoint to go on from: the last one of this run, or the one it was given.

    Returns:
        The checkpoint; `None` at the beginning of a run that was given none.

    Raises:
        RuntimeError: If this is not a training loop or a trial.

    Example:
        >>> def loop():
        ...     checkpoint = skate.train.get_checkpoint()
        ...     first = checkpoint.to_dict()["epoch"] + 1 if checkpoint else 0
        ...     for epoch in range(first, 3):
        ...         new = skate.train.Checkpoint.from_dict({"epoch": epoch})
        ...         skate.train.report({"epoch": epoch}, checkpoint=new)
        >>> quiet = skate.train.RunConfig(verbose=0)
        >>> result = skate.train.DataParallelTrainer(loop, run_config=quiet).fit()
        >>> result.checkpoint.to_dict()
        {'epoch': 2}
    """
    return current("get_checkpoint()").get_checkpoint()


def get_context() -> TrainContext:
    """Return who and where this worker or trial is.

    Raises:
        RuntimeError: If this is not a training loop or a trial.

    Example:
        >>> def loop():
        ...     context = skate.train.get_context()
        ...     skate.train.report({"workers": context.get_world_size()})
        >>> two = skate.train.ScalingConfig(num_workers=2)
        >>> quiet = skate.train.RunConfig(verbose=0)
        >>> trainer = skate.train.DataParallelTrainer(loop, scaling_config=two, run_config=quiet)
        >>> trainer.fit().metrics["workers"]
        2
    """
    return current("get_context()").context


def get_dataset_shard(dataset_name: str | None = None) -> Any:
    """Return this worker's part of a dataset of the trainer, to iterate over.

    Args:
        dataset_name: Which of the trainer's `datasets`; may be left out if there is one.

    Raises:
        RuntimeError: If there are no datasets, or several and no name.
        KeyError: If there is none of this name.

    Example:
        >>> def loop():
        ...     shard = skate.train.get_dataset_shard("train")
        ...     skate.train.report({"rows": sum(1 for row in shard.iter_rows())})
        >>> quiet = skate.train.RunConfig(verbose=0)
        >>> trainer = skate.train.DataParallelTrainer(
        ...     loop, datasets={"train": skate.data.range(10)}, run_config=quiet
        ... )
        >>> trainer.fit().metrics["rows"]
        10
    """
    return current("get_dataset_shard()").get_dataset_shard(dataset_name)


def save_checkpoint(**values: object) -> None:
    """Save values by name as a checkpoint, as in `save_checkpoint(epoch=3, model=weights)`.
    What rank 0 gives is saved."""
    acting("save_checkpoint()").save_checkpoint(Checkpoint.from_dict(values))


def load_checkpoint() -> dict[str, Any] | None:
    """Return the values of the checkpoint to go on from, or None; see `get_checkpoint`."""
    checkpoint = current("load_checkpoint()").get_checkpoint()
    return None if checkpoint is None else checkpoint.to_dict()


def world_size() -> int:
    """Return how many workers train together; an older name for that of `get_context()`."""
    return current("world_size()").info.world_size


def world_rank() -> int:
    """Return this worker's number among all; an older name for that of `get_context()`."""
    return current("world_rank()").info.world_rank


def local_rank() -> int:
    """Return this worker's number on its machine; an older name for that of `get_context()`."""
    return current("local_rank()").info.local_rank


def local_world_size() -> int:
    """Return how many workers are on this machine; an older name for that of `get_context()`."""
    return current("local_world_size()").info.local_world_size


def node_rank() -> int:
    """Return the number of this machine; an older name for that of `get_context()`."""
    return current("node_rank()").info.node_rank
