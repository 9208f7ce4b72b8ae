"""A trial's side of `tune.report` and its relatives."""

from __future__ import annotations

import bisect
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import CHECKPOINT_NAME
from skate._run.config import CheckpointConfig
from skate._run.context import SessionInfo
from skate._run.folders import scratch_dir
from skate._run.reporting import CheckpointUploadMode, Report, ResultClock
from skate._run.session import RunSession, acting, current
from skate._run.signing_key import signing_key
from skate._run.storage import Storage
from skate._run.types import Config, ResultRow
from skate._run.values import lookup, plain, reached
from skate.tune.execution.channel import Channel, Halted
from skate.tune.execution.events import Reported, Saved, TrialVerdict

if TYPE_CHECKING:
    from skate.tune.schedulers.trial_scheduler import DecisionTimes


CLEANUP_SECONDS = 600.0  # as with Ray


@dataclass
class TrialTask:
    """Everything that a worker needs to run a trial.

    Attributes:
        info: Who and where it is; its folder is `info.storage`.
        config: Its configuration.
        stopping_criterion: The values of metrics at which it is over.
        checkpoint_config: When a class saves.
        checkpoint: What to go on from.
        iteration: How many results it had at that checkpoint,
        seconds: how long it had run,
        totals: and what it had summed up.
        next_checkpoint: The number of its next checkpoint.
        waits_at: A metric and its values, from which on it waits for a verdict at the next
            result; `None` is at each result.
        log_files: Where its output goes too, out and err.
        working_directory: Where it runs, if not in the program's.
        export_formats: In which a class exports its model at the end.
        reuse_instance: Whether the instance of a class may go on with the next trial.
        restore_retries: How often a class may fail to read its checkpoint.
        cleanup_seconds: How long its `cleanup` may take, before its process is ended.
        signing_key: For what it pickles.
    """

    info: SessionInfo
    config: Config
    stopping_criterion: dict[str, Any] = field(default_factory=dict)
    checkpoint_config: CheckpointConfig = field(default_factory=CheckpointConfig)
    checkpoint: Checkpoint | None = None
    iteration: int = 0
    seconds: float = 0.0
    totals: dict[str, int] = field(default_factory=dict)
    next_checkpoint: int = 0
    waits_at: DecisionTimes | None = None
    log_files: tuple[str, str] | None = None
    working_directory: str | None = None
    export_formats: tuple[str, ...] = ()
    reuse_instance: bool = False
    restore_retries: int = 0
    cleanup_seconds: float = CLEANUP_SECONDS
    signing_key: bytes = field(default_factory=signing_key, repr=False)


class Outbox:
    """Results and checkpoints on their way to the driver; who has to wait waits here."""

    def __init__(self, task: TrialTask, channel: Channel) -> None:
        self.task = task
        self.storage: Storage = task.info.storage
        self._channel = channel
        self._next = task.next_checkpoint
        self._passed = 0  # of the times at which it waits
        self.began: float = time.time()

    def result(self, metrics: ResultRow, checkpoint: str | None) -> TrialVerdict:
        wait = (
            self._is_decided_upon(metrics)
            or checkpoint is not None
            or bool(metrics.get("done"))
            or reached(self.task.stopping_criterion, metrics)
        )
        return self._channel.send(Reported(metrics, checkpoint), wait)

    def _is_decided_upon(self, metrics: ResultRow) -> bool:
        """Return whether a scheduler or stopper has a decision to make at this result."""
        if self.task.waits_at is None:
            return True
        name, times = self.task.waits_at
        if self._passed == len(times):
            return False
        now = plain(lookup(metrics, name))
        if not isinstance(now, (int, float)):
            return now is not None
        before, self._passed = self._passed, bisect.bisect_right(times, now, self._passed)
        return self._passed > before

    def saved(self, checkpoint: str | None, wait: bool) -> TrialVerdict:
        return self._channel.send(Saved(checkpoint), wait)

    def new_name(self) -> str:
        """Return the name of the next checkpoint's folder, and count it."""
        name = CHECKPOINT_NAME.format(self._next)
        self._next += 1
        return name

    def persist(self, checkpoint: Checkpoint) -> str:
        """Copy a checkpoint into the trial's folder; its place in there."""
        name = self.new_name()
        self.storage.persist(checkpoint, name, written_since=self.began)
        return checkpoint._place_inside(name)

    def place(self, name: str) -> Checkpoint:
        return self.storage.checkpoint(name)


class TrialSession(RunSession):
    """What `report`, `get_checkpoint` and `get_context` talk to in a function."""

    def __init__(self, task: TrialTask, channel: Channel) -> None:
        super().__init__(task.info, task.checkpoint)
        self.outbox: Outbox = Outbox(task, channel)
        self._clock = ResultClock(
            task.info.trial_id, task.config, task.iteration, task.seconds, task.totals
        )
        self._draft: tuple[str, str] | None = None  # the name of a checkpoint, its folder
        self._saved: str | None = None  # what was given to save_checkpoint since

    def report(self, report: Report) -> None:
        if report.validation:
            raise ValueError("validations are for trainers; a trial validates in its function")
        if report.upload_mode is not CheckpointUploadMode.SYNC or report.upload_fn is not None:
            raise ValueError(
                "in a trial, checkpoints are copied into its folder before report returns; the "
                "options of uploading are for trainers"
            )
        if report.checkpoint is not None:
            name: str | None = self.outbox.persist(report.checkpoint)
        else:
            name = self._finished_draft()
        if name is not None:
            self.latest_checkpoint: Checkpoint = self.outbox.place(name)
        if report.metrics is None:
            self._obey(self.outbox.saved(name, wait=True))
            return
        metrics = self._clock.fill(report.metrics)
        if name is not None:
            metrics["checkpoint_dir_name"] = name.partition("/")[0]
        self._obey(self.outbox.result(metrics, name))

    def finish(self) -> None:
        """Send the checkpoint that a function has made without a report, when it has returned."""
        name = self._finished_draft()
        if name is not None:
            self.outbox.saved(name, wait=True)

    def close(self) -> None:
        """Drop a folder that was made for a checkpoint that never came."""
        if self._draft is not None and self._saved is None:
            shutil.rmtree(self._draft[1], ignore_errors=True)
            self._draft = None

    def _obey(self, verdict: TrialVerdict) -> None:
        while verdict is TrialVerdict.SAVE:  # a function has saved what it has saved
            verdict = self.outbox.saved(None, wait=True)
        if verdict.halts:
            raise Halted(0)

    # -- the older way to save ---------------------------------------------------------------

    def make_checkpoint_dir(self) -> str:
        """Make a new folder, for files that the next report brings along."""
        self.close()
        name = self.outbox.new_name()
        storage = self.outbox.storage
        if storage.is_local:
            folder = storage.new_draft(name).path
        else:
            folder = tempfile.mkdtemp(prefix="checkpoint_", dir=scratch_dir())
        self._draft = (name, folder)
        return folder

    def keep(self, path: str) -> None:
        """Note that this file or folder is the checkpoint of the next report."""
        if not os.path.exists(path):
            raise FileNotFoundError(f"save_checkpoint was given {path!r}, which does not exist")
        self._saved = os.path.abspath(path)

    def _finished_draft(self) -> str | None:
        saved, self._saved = self._saved, None
        if saved is None:
            return None
        draft, self._draft = self._draft, None
        if draft is None or not _inside(saved, draft[1]):
            return self.outbox.persist(Checkpoint(saved))
        name, folder = draft
        storage = self.outbox.storage
        if storage.is_local:
            storage.finish(name)
        else:
            storage.persist(Checkpoint(folder), name, written_since=self.began)
            shutil.rmtree(folder, ignore_errors=True)
        inner = os.path.relpath(saved, folder)
        return name if inner == "." else f"{name}/{inner}"


def _inside(path: str, folder: str) -> bool:
    return os.path.commonpath([path, os.path.abspath(folder)]) == os.path.abspath(folder)


# -- what users call ------------------------------------------------------------------------------


def _session(caller: str) -> TrialSession:
    session = current(caller)
    if not isinstance(session, TrialSession):
        raise RuntimeError(f"{caller} is for trials of tuning; in training use report()")
    return session


def make_checkpoint_dir(step: object = None) -> str:
    """Make a folder to write a checkpoint into, before `save_checkpoint`.

    Args:
        step: Without effect: checkpoints are numbered by themselves.

    Returns:
        The path of the folder.
    """
    return _session("tune.make_checkpoint_dir()").make_checkpoint_dir()


def save_checkpoint(path: Any = None, **values: object) -> None:
    """Save the checkpoint that belongs to the next `tune.report`.

    Args:
        path: Its file or folder; None if it is made of values.
        **values: Values by name instead: `save_checkpoint(epoch=3, model=weights)`.
    """
    if path is None:
        acting("tune.save_checkpoint()").save_checkpoint(Checkpoint.from_dict(values))
    else:
        _session("tune.save_checkpoint()").keep(os.fspath(path))


@contextlib.contextmanager
def checkpoint_dir(step: object = None) -> Iterator[str]:
    """Give a folder, for a `with` statement, whose content is the checkpoint of the next report.

    Args:
        step: Without effect: checkpoints are numbered by themselves.

    Yields:
        The path of the folder.
    """
    session = _session("tune.checkpoint_dir()")
    folder = session.make_checkpoint_dir()
    yield folder
    session.keep(folder)


def get_trial_dir() -> str:
    """Return the trial's folder."""
    return current("tune.get_trial_dir()").info.trial_dir


def get_trial_id() -> str:
    """Return the trial's id."""
    return current("tune.get_trial_id()").info.trial_id


def get_trial_name() -> str:
    """Return the trial's name."""
    return current("tune.get_trial_name()").info.trial_name


def get_trial_resources() -> Any:
    """Return the trial's resources."""
    return current("tune.get_trial_resources()").context.get_trial_resources()


def is_session_enabled() -> bool:
    """Return whether this is a trial."""
    from skate._run.session import in_session

    return in_session()
