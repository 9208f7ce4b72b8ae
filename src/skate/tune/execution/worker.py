"""The process that runs trials, one after the other."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TextIO

import skate
from skate._core.modules_mentioned import modules_mentioned
from skate._core.optional_imports import ray_is_skate
from skate._core.places import place_of_thread
from skate._run.signing_key import adopt_signing_key
from skate._run.storage import Storage
from skate.tune.execution.channel import Channel, Halted
from skate.tune.execution.events import Began, Ended, Saved, TrialEvent, TrialVerdict
from skate.tune.execution.messages import EventsMessage, TaskMessage, packed_events, unpacked_task
from skate.tune.execution.programs import ClassProgram, is_class, run_function
from skate.tune.execution.session import CLEANUP_SECONDS, TrialTask

_LONGEST_CALL_SECONDS = 1.0  # without a result, after which the driver gets a word in
_GRACE_SECONDS = 5.0  # for a halted trial to come to its end
_ORIGINAL = "TUNE_ORIG_WORKING_DIR"  # programs for Ray look for it

_logger = logging.getLogger(__name__)


class TrialWorker:
    """One trial at a time, in a thread of its own. All calls return events of trials; `Ended` is
    the last of each. What a trial raised is raised by the call after."""

    def __init__(self, trainable: Any) -> None:
        self._trainable = trainable
        self._thread: threading.Thread | None = None  # of a trial that is yet to start
        self._started: threading.Thread | None = None
        self._trial_id: str = ""
        self._channel = Channel()
        self._error: BaseException | None = None
        self._exports = False
        self._instance: Any = None
        self._cleanup_ends = math.inf  # when it has to be over, once it has begun

    def begin(self, task: TrialTask, at_once: bool = False) -> list[TrialEvent]:
        """Take a trial, and make its folder, which says that it was taken also if this is the
        last that is heard of this process. It starts at once, or with the first `exchange`."""
        if task.info.storage.is_local:
            task.info.storage.local_folder.make()
        adopt_signing_key(task.signing_key)
        self._channel = Channel()
        self._error = None
        self._exports = bool(task.export_formats)
        self._cleanup_ends = math.inf
        self._trial_id = task.info.trial_id
        self._thread = threading.Thread(target=self._run, args=(task,), name="trial", daemon=True)
        began = Began(os.getpid())
        if not at_once:
            return [began]
        self._start()
        events, over = self._channel.take(_LONGEST_CALL_SECONDS)
        return [began, *events, *([Ended()] if over and self._error is None else ())]

    def hand_over(self, task: TrialTask) -> list[TrialEvent]:
        """Halt the trial and begin the next one at once; not if the first does not leave."""
        events = self.exchange(TrialVerdict.HALT)
        return events if events[-1] != Ended() else [*events, *self.begin(task, at_once=True)]

    def exchange(self, verdict: TrialVerdict) -> list[TrialEvent]:
        """Give the trial its verdict; what comes next from it."""
        if self._thread is not None:
            if verdict.halts:
                self._thread = None
                return [Ended()]
            self._start()
        self._channel.answer(verdict)
        if not verdict.halts:
            return self._take(_LONGEST_CALL_SECONDS)
        return self._until_it_ends(saves=verdict is TrialVerdict.HALT_AND_SAVE)

    def _start(self) -> None:
        self._started, self._thread = self._thread, None
        assert self._started is not None
        self._started.start()

    def waits_because(self, method: str) -> str | None:
        """Return where the trial is, for whom asks why nothing comes from it."""
        place = place_of_thread(self._started) if method in ("begin", "exchange") else ""
        return f"trial {self._trial_id} is at {place}" if place else None

    def _until_it_ends(self, saves: bool) -> list[TrialEvent]:
        """Wait for the end of a halted trial, for its last checkpoint. One that leaves may take
        its time to save, and some to clean up; one that does not is stuck."""
        events: list[TrialEvent] = []
        deadline = time.monotonic() + _GRACE_SECONDS
        over = False
        while not over:
            taken, over = self._channel.take(_LONGEST_CALL_SECONDS)
            events += [event for event in taken if isinstance(event, Saved)]
            if time.monotonic() > deadline and not (self._channel.leaving or over):
                return [Ended(stuck=True)]
            if self._cleans_up_for_ever and not over:
                return [*events, self._stuck_in_cleanup()]
            self._channel.answer(TrialVerdict.HALT)
        error, self._error = self._error, None
        if error is not None and (self._exports or (saves and not events)):
            raise error
        return [*events, Ended()]  # what else it raises on its way out is nobody's concern

    def close(self) -> None:
        """Stop the last instance of a class, which was kept to be used again."""
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.stop()

    def _take(self, seconds: float) -> list[TrialEvent]:
        events, over = self._channel.take(seconds)
        if not over and not self._cleans_up_for_ever:
            return events
        if self._error is None:
            return [*events, Ended() if over else self._stuck_in_cleanup()]
        if not events:
            raise self._error
        return events

    @property
    def _cleans_up_for_ever(self) -> bool:
        return time.monotonic() > self._cleanup_ends

    def _stuck_in_cleanup(self) -> Ended:
        _logger.warning(
            "trial %s does not come to the end of its cleanup(), and its process is ended: "
            "TUNE_FORCE_TRIAL_CLEANUP_S says how many seconds that may take, %d by default",
            self._trial_id,
            CLEANUP_SECONDS,
        )
        return Ended(stuck=True)

    # -- in the trial's thread ---------------------------------------------------------------

    def _run(self, task: TrialTask) -> None:
        try:
            self._run_in_place(task)
        except Halted:
            pass
        except SystemExit as exit:
            if exit.code not in (None, 0):
                self._error = RuntimeError(f"the trial called sys.exit({exit.code!r})")
        except BaseException as error:
            self._error = error
        finally:
            self._channel.end()

    def _run_in_place(self, task: TrialTask) -> None:
        """Run the program in the working directory and with the log files that were asked for."""
        try:
            _directory.enter(task.working_directory)
            if task.log_files is None:
                self._run_program(task)
                return
            with _written_down(task.info.storage, task.log_files):
                self._run_program(task)
        finally:
            _directory.leave()

    def _run_program(self, task: TrialTask) -> None:
        if is_class(self._trainable):
            self._run_class(task)
        else:
            run_function(self._trainable, task, self._channel)

    def _run_class(self, task: TrialTask) -> None:
        old, self._instance = self._instance, None
        program = ClassProgram(self._trainable, task, self._channel, old)
        try:
            program.run()
        except Halted:
            self._end_instance(program.instance, task)
            raise
        except BaseException as error:
            if isinstance(error, Exception):
                self._error = error  # told also if the clean-up never ends
            with contextlib.suppress(Exception):  # the first error is the one to know of
                self._stop(program.instance, task)
            raise
        self._end_instance(program.instance, task)

    def _end_instance(self, instance: Any, task: TrialTask) -> None:
        if task.reuse_instance:
            self._instance = instance
        else:
            self._stop(instance, task)

    def _stop(self, instance: Any, task: TrialTask) -> None:
        self._cleanup_ends = time.monotonic() + task.cleanup_seconds
        instance.stop()


class _WorkingDirectory:
    """The one of this process, which trials of the inline engine share: the last that ends goes
    back to where the first began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trials = 0
        self._home = ""
        self._undo = contextlib.ExitStack()

    def enter(self, folder: str | None) -> None:
        """Go to the folder of a trial, if there is one for it; programs are told where they
        began."""
        with self._lock:
            self._trials += 1
            if self._trials == 1:
                self._home = os.getcwd()
                if _ORIGINAL not in os.environ:
                    os.environ[_ORIGINAL] = self._home
                    self._undo.callback(os.environ.pop, _ORIGINAL, None)
            if folder is not None:
                self._undo.callback(os.chdir, self._home)
                os.makedirs(folder, exist_ok=True)
                os.chdir(folder)

    def leave(self) -> None:
        """Note that a trial has left, or could not enter."""
        with self._lock:
            self._trials -= 1
            if self._trials == 0:
                self._undo.close()


_directory = _WorkingDirectory()


@contextlib.contextmanager
def _written_down(storage: Storage, log_files: tuple[str, str]) -> Iterator[None]:
    """Write what is printed and logged to files in a trial's folder too."""
    with contextlib.ExitStack() as stack:
        stack.callback(storage.close)  # elsewhere, this is a copy to upload
        paths = [os.path.join(storage.local_path, name) for name in log_files]
        out, err = (stack.enter_context(open(path, "a")) for path in paths)
        stack.enter_context(contextlib.redirect_stdout(_Tee(sys.stdout, out)))
        stack.enter_context(contextlib.redirect_stderr(_Tee(sys.stderr, err)))
        stack.enter_context(_logged_to(err))
        yield


@contextlib.contextmanager
def _logged_to(stream: TextIO) -> Iterator[None]:
    """Write what is logged to the library's own logger, as some programs do, to a stream."""
    logger = logging.getLogger("ray" if ray_is_skate() else "skate")  # the first has the second's
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(asctime)s %(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


class _Tee:
    """Writes to two streams; for the rest it is the first, which may be absent."""

    def __init__(self, first: TextIO | None, second: TextIO) -> None:
        self._first = second if first is None else first
        self._second = second

    def write(self, text: str) -> int:
        if self._second is not self._first:
            self._second.write(text)
            self._second.flush()
        return self._first.write(text)

    def flush(self) -> None:
        self._first.flush()
        self._second.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)


class TrialActor:
    """A `TrialWorker` as the driver calls it: tasks and events are as they travel."""

    def __init__(self, trainable: Any) -> None:
        self._worker = TrialWorker(trainable)

    def begin(self, task: TaskMessage, at_once: bool) -> EventsMessage:
        return packed_events(self._worker.begin(unpacked_task(task), at_once))

    def hand_over(self, task: TaskMessage) -> EventsMessage:
        return packed_events(self._worker.hand_over(unpacked_task(task)))

    def exchange(self, verdict: str) -> EventsMessage:
        return packed_events(self._worker.exchange(TrialVerdict(verdict)))

    def close(self) -> None:
        self._worker.close()

    def waits_because(self, method: str) -> str | None:
        return self._worker.waits_because(method)


def worker_class(trainable: object) -> Any:
    """Make the actor class of a process for trials, with the names of the modules that these will
    use: by them the engine chooses where to start it."""
    modules = modules_mentioned(trainable)
    return skate.remote(type(TrialWorker.__name__, (TrialActor,), {"modules": modules}))
