"""A worker: an actor that runs the loop in a thread and meets the others at each report.

    driver                                  worker
      next_event(None) ──────────────────►    waits for the loop …
                                              loop: report(metrics, checkpoint)
                       ◄──── REPORTED ────    (its part of the checkpoint is written)
      all ranks are here: checkpoint complete, recorded
      next_event(answer) ────────────────►    report returns; waits for the loop …
                       ◄──── FINISHED ────    the loop's return value

The loop's exception is raised by `next_event`.
"""

from __future__ import annotations

import inspect
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

import skate
from skate._core.places import place_of_thread
from skate._run.checkpoint import Checkpoint
from skate._run.context import SessionInfo
from skate._run.reporting import DEFAULT_METRIC, Report
from skate._run.session import RunSession, activated
from skate._run.signing_key import adopt_signing_key, signing_key
from skate._run.storage import Storage, write_into
from skate._run.types import Config, Positions, ResultRow
from skate.train._errors import LoopExitedError
from skate.train._workers.events import (
    FINISHED,
    MEETING,
    REPORTED,
    Answer,
    Event,
    Joined,
    StoppedError,
)
from skate.train._workers.handover import discard_original, hand_over
from skate.train._workers.membership import LoopMailbox, Membership
from skate.train._workers.staging import stage

LOOP_THREAD = "skate-train"
ARTIFACTS = "artifacts"


@dataclass
class WorkerJob:
    """What all workers of a group are given."""

    loop: bytes  # the user's function and its configuration, pickled once
    info: SessionInfo
    storage: Storage
    checkpoint: Checkpoint | None
    next_checkpoint: int
    train_func_context: Any
    data_context: Any = None  # the settings of skate.data, if there are datasets
    returns: bool = True  # whether what the loop returns is wanted
    replaces: bool = False  # whether workers that die are replaced one by one
    is_newcomer: bool = False  # whether this worker takes the place of one
    folder_of_its_own: bool = False  # whether the run has a working directory of its own
    signing_key: bytes = field(default_factory=signing_key, repr=False)  # for what it pickles


class WorkerSession(RunSession):
    """Reports go through the mailbox; each waits for the rest of the group."""

    def __init__(self, job: WorkerJob, datasets: dict[str, object], mailbox: LoopMailbox) -> None:
        super().__init__(job.info, job.checkpoint, datasets)
        self._storage = job.storage
        self._next = job.next_checkpoint
        self.replaces = job.replaces
        self.membership: Membership = Membership(mailbox, job.is_newcomer)
        self._held: Any = None  # the name and the dict of a checkpoint that may not be needed

    def report(self, report: Report) -> None:
        check_metrics(report.metrics)
        if self.membership.replays:
            event = Event(REPORTED)
        else:
            rank = self.info.world_rank
            event = hand_over(report, self._next, self._storage, rank, self.began, stage)
            event.positions = positions_of(self.datasets)
            self._held = (event.checkpoint_name, report.checkpoint) if event.held else None
        answer = self.membership.exchange(event)
        self._next = answer.next_checkpoint
        self.pending_checkpoint = answer.pending
        if answer.checkpoint is not None:
            self.latest_checkpoint = answer.checkpoint
        discard_original(report, event.checkpoint)
        if answer.stop:
            raise StoppedError

    def adopt(self, joined: Joined) -> None:
        """Be who this worker is in a group that was formed anew."""
        self.info = self.context._info = joined.info
        for name, part in (joined.datasets or {}).items():
            mine: Any = self.datasets.get(name)
            if hasattr(mine, "take_over"):
                mine.take_over(part, joined.positions.get(name))
            else:
                self.datasets[name] = part

    def write_held(self) -> None:
        """Write the checkpoint that was held back, as nobody else has one."""
        assert self._held is not None
        name, checkpoint = self._held
        write_into(self._storage.draft(name), checkpoint, written_since=self.began)

    def meet(self, value: object = None) -> Any:
        """Wait for all ranks; what rank 0 brought."""
        brought = value if self.info.world_rank == 0 else None
        return self.membership.exchange(Event(MEETING, value=brought)).value


class TrainWorker:
    """The actor. Calls come from several threads at once; the loop has its own."""

    def __init__(self) -> None:
        self._mailbox = LoopMailbox()
        self._session: WorkerSession | None = None
        self._context: Any = None
        self._thread: threading.Thread | None = None

    def process(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    def ping(self) -> None:
        """Return, which shows that the process is alive and well."""

    def execute(self, function: Callable[..., object], *args: object, **kwargs: object) -> Any:
        """Call a function here, for a back end."""
        if self._session is None:
            return function(*args, **kwargs)
        with activated(self._session):
            return function(*args, **kwargs)

    def prepare(self, job: WorkerJob, datasets: dict[str, object]) -> None:
        """Have a session, in which back ends can look around before the loop begins."""
        adopt_signing_key(job.signing_key)
        self._session = WorkerSession(job, datasets, self._mailbox)
        if job.data_context is not None:
            job.data_context._set_current(job.data_context)
        self._context = job.train_func_context
        self._loop = job.loop
        self._returns = job.returns
        if job.folder_of_its_own:
            enter_folder_of(job.info.experiment_name)

    def write_held(self) -> None:
        """Write the checkpoint of the current report, which was held back."""
        assert self._session is not None
        self._session.write_held()

    def interrupt(self, group: int) -> None:
        """Have the loop go back: somebody of the group with this number is gone."""
        assert self._session is not None
        self._session.membership.interrupt(group)
        for dataset in self._session.datasets.values():
            if hasattr(dataset, "abandon"):
                dataset.abandon()

    def dismiss(self, seconds: float) -> None:
        """Have the loop end after an interrupt, as the group goes on without it, and wait for
        that."""
        self._mailbox.answers.put(Answer(0, stop=True))
        assert self._thread is not None
        self._thread.join(seconds)

    def start(self) -> None:
        """Begin the loop."""
        self._thread = threading.Thread(target=self._run, name=LOOP_THREAD, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert self._session is not None
        try:
            with activated(self._session), self._context():
                value = call_loop(*cloudpickle.loads(self._loop))
            wanted = portable(value) if self._returns else None
            self._mailbox.events.put(Event(FINISHED, value=wanted))
        except StoppedError:
            self._mailbox.events.put(Event(FINISHED))
        except BaseException as error:
            self._mailbox.events.put(error)

    def waits_because(self, method: str) -> str | None:
        """Return where the loop is, for whom asks why its next event does not come."""
        if method != "next_event" or self._session is None:
            return None
        place = place_of_thread(self._thread)
        return f"rank {self._session.info.world_rank} is at {place}" if place else None

    def next_event(self, answer: Answer | None) -> Event:
        """Answer the last report, and wait for the next."""
        if answer is not None:
            self._mailbox.answers.put(answer)
        event = self._mailbox.events.get()
        if isinstance(event, BaseException):
            raise event
        return event


def enter_folder_of(run: str) -> None:
    """Work in a folder of the session that all workers of a run share, which ends with it."""
    session = skate.get_runtime_context().get_temp_dir() or tempfile.gettempdir()
    folder = os.path.join(session, ARTIFACTS, run)
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)


def takes_config(loop: Callable[..., object]) -> bool:
    """Return whether a loop has a parameter for its configuration. Raise if it has more than
    that."""
    if not callable(loop):
        raise ValueError(f"train_loop_per_worker is a function; got {type(loop).__name__}")
    try:
        parameters = inspect.signature(loop).parameters.values()
    except ValueError:  # of a function in C that does not say
        return True
    places = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.KEYWORD_ONLY)]
    needed = [p.name for p in places if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if len(needed) > 1:
        raise ValueError(
            f"train_loop_per_worker takes no argument, or one: its configuration; got {needed}. "
            "Put what it needs into train_loop_config"
        )
    return bool(places)


def call_loop(loop: Callable[..., object], config: Config) -> Any:
    """Call the loop and return what it does. `sys.exit` ends the loop, not the process."""
    try:
        return loop(config) if takes_config(loop) else loop()
    except SystemExit as ended:
        if ended.code in (None, 0):
            return None
        raise LoopExitedError(ended.code) from ended


def check_metrics(metrics: ResultRow | None) -> None:
    """Refuse tensors with more than one value, which are models, and metrics without a name."""
    if metrics and DEFAULT_METRIC in metrics:
        raise TypeError(
            "train.report takes a dict of metrics, as in train.report({'loss': 0.1}), or metrics "
            f"by name; got {metrics[DEFAULT_METRIC]!r}"
        )
    for name, value in (metrics or {}).items():
        if type(value).__module__.partition(".")[0] == "torch" and getattr(value, "ndim", False):
            raise ValueError(
                "Passing objects containing Torch tensors as metrics is not supported: the metric "
                f"{name!r} is a tensor of shape {tuple(value.shape)}. Report numbers, and put "
                "tensors into a checkpoint"
            )


def portable(value: object) -> Any:
    """Return what a loop returned, if it can travel: many return a model without meaning to."""
    try:
        cloudpickle.dumps(value)
    except Exception:
        return None
    return value


def positions_of(datasets: dict[str, Any]) -> Positions:
    """Return how far each of a worker's datasets was read, of those that were read in part."""
    places = {name: ds._place() for name, ds in datasets.items() if hasattr(ds, "_place")}
    return {name: place for name, place in places.items() if place is not None}
