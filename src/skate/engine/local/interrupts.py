"""Signals whose handlers raise (Ctrl-C, alarms): the user gets the exception, and the engine
stays whole.

Python may run a signal handler between any two instructions of the main thread, also in the
middle of the hub's bookkeeping or while the lead of the reactor changes hands. So the engine puts
itself before the handlers of the user's (`GuardedHandler`). A signal that comes inside the
engine's own code, or while the main thread leads or has the engine's lock, is put off until
everything is consistent: when `get` or a submission returns, and a moment later otherwise.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps each call into enums, 3 µs
import _thread
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import cloudpickle

from skate._core import refs, serialization
from skate._core.errors import without_own_frames
from skate.engine.local.reactor import Reactor, Waiter
from skate.engine.local.termination import Termination

MAIN = threading.main_thread().ident or 0

# Code in which nothing may be raised: the engine's, and destructors, where it would be ignored.
_PROTECTED = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.abspath(refs.__file__),
    os.path.abspath(weakref.__file__),
)
# Whoever pickles takes an exception for one of the value that cannot be pickled; also where it is
# raised in what they call, of the standard library or of the user's.
_PICKLING = (
    os.path.abspath(serialization.__file__),
    os.path.dirname(os.path.abspath(cloudpickle.__file__)) + os.sep,
)

# Those that programs handle, by far the most often with an exception.
_HANDLED = (
    _signal.SIGINT,
    _signal.SIGALRM,
    _signal.SIGTERM,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
    _signal.SIGHUP,
    _signal.SIGVTALRM,
    _signal.SIGPROF,
    _signal.SIGQUIT,
)
_ALARM = _signal.SIGALRM
_getsignal = _signal.getsignal
_SOON_SECONDS = 0.001

Handler = Callable[[int, "FrameType | None"], Any]


class GuardedHandler:
    """A signal handler of the user's, called when the engine allows it."""

    def __init__(self, handler: Handler, interrupts: Interrupts) -> None:
        self.handler = handler
        self.interrupts = interrupts

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self.interrupts.handle(self.handler, number, frame)
        except KeyboardInterrupt as error:
            raise without_own_frames(error) from error.__cause__

    def __eq__(self, other: object) -> bool:
        return self is other or self.handler == other

    def __hash__(self) -> int:
        return hash(self.handler)

    def __repr__(self) -> str:
        return repr(self.handler)


class Interrupts:
    """Guards the signal handlers of a process while an engine is in use."""

    def __init__(
        self,
        reactor: Reactor,
        lock: Any,  # the engine's RLock
        wanted: Callable[[], bool] | None = None,
    ) -> None:
        # Something was put off: the wait of the main thread is to end (`reactor.StopSignal`).
        self.pending: bool = False
        self.idle = False  # the main thread runs nothing of the user's
        self._reactor = reactor
        self._lock = lock
        self._wanted = wanted  # of a worker: whether an interrupt, a cancellation there, holds
        self._waiter: Waiter | None = None  # what the main thread waits for
        self._noted: list[tuple[Handler, int]] = []  # what was put off
        self._held = 0
        self._closed = False
        # Handlers as they were when the main thread looked last; none is this object.
        self._seen: list[tuple[int, Any]] = [(number, self) for number in _HANDLED]
        self._alarm: Any = self  # that of the most usual signal
        self._guard()

    # -- whose handlers there are ----------------------------------------------------------------

    def look(self) -> None:
        """Guard the handlers that have been installed since the last look."""
        for number, seen in self._seen:
            if _getsignal(number) is not seen:
                self._guard()
                return

    def _guard(self) -> None:
        if threading.get_ident() != MAIN or self._closed:
            return
        for number in _HANDLED:
            handler = _getsignal(number)
            if type(handler) is GuardedHandler:
                if handler.interrupts is self:
                    continue
                handler = handler.handler  # of an engine that has ended
            own = isinstance(handler, Termination)  # which asks here first
            if callable(handler) and not own and not _is_asyncio(handler):
                _signal.signal(number, GuardedHandler(handler, self))
        self._seen = [(number, _getsignal(number)) for number in _HANDLED]
        self._alarm = _getsignal(_ALARM)

    def look_briefly(self) -> None:
        """Do as `look`, for what is called very often: only alarms are installed at any time."""
        if _getsignal(_ALARM) is not self._alarm:
            self._guard()

    def detach_in_child(self) -> None:
        """Detach in a forked child: what was put off is the parent's to handle."""
        self._noted.clear()
        self.close()

    def close(self) -> None:
        """Give the handlers back to the user, and what was put off to them."""
        self._closed = True
        if threading.get_ident() == MAIN:
            for number in _HANDLED:
                handler = _signal.getsignal(number)
                if type(handler) is GuardedHandler and handler.interrupts is self:
                    _signal.signal(number, handler.handler)
        if not self._held:
            self._hand_over()

    # -- a signal --------------------------------------------------------------------------------

    def trigger(self, thread: int) -> None:
        """Interrupt the main thread of this worker, also inside a system call."""
        _signal.pthread_kill(thread, _signal.SIGINT)

    def handle(self, handler: Handler, number: int, frame: FrameType | None) -> None:
        """Call the handler, now or as soon as it may raise."""
        if number == _signal.SIGINT and self._wanted is not None and not self._wanted():
            return  # what was to be interrupted has ended by itself
        if self._closed or self._may_raise(frame):
            handler(number, frame)
        elif self.idle:
            _report_errors(handler, number, frame)
        elif (handler, number) not in self._noted:
            self._put_off(handler, number)

    def _put_off(self, handler: Handler, number: int) -> None:
        self._noted.append((handler, number))
        self.pending = True
        if self._waiter is not None:
            self._end_wait(self._waiter)
        elif self._held:
            pass  # who holds it sees to it
        elif self._closed:  # a moment ago, by another thread
            self._hand_over()
        else:  # no safe point need follow, after a destructor above all
            self._reactor.call_later(_SOON_SECONDS, self._hand_over)

    def _hand_over(self) -> None:
        """Let the main thread handle what no safe point has delivered. From any thread."""
        for _ in range(len(self._noted)):  # in the main thread, each is put off again at once
            noted = self._take()
            if noted is not None:
                _thread.interrupt_main(noted[1])  # type: ignore[arg-type]  # any number will do

    def _take(self) -> tuple[Handler, int] | None:
        """Take what was put off first, once: another thread may be about to take it too."""
        try:
            return self._noted.pop(0)
        except IndexError:
            return None

    def _may_raise(self, frame: FrameType | None) -> bool:
        return not (
            self._held
            or (frame is not None and frame.f_code.co_filename.startswith(_PROTECTED))
            or _is_pickling(frame)
            or self._reactor.leads()
            or self._lock._is_owned()
        )

    def _end_wait(self, waiter: Waiter) -> None:
        self.pending = True
        self._reactor.interrupt()
        waiter.wake()

    def end_wait(self) -> None:
        """Interrupt the main thread if it waits, and only there. From any thread."""
        waiter = self._waiter
        if waiter is not None:
            self._end_wait(waiter)

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, waiter: Waiter, timeout: float | None) -> bool:
        """Wait as `reactor.run_until` does; ended early by a handler that raises."""
        if threading.get_ident() != MAIN or self._reactor.leads():
            return self._reactor.run_until(waiter, timeout)
        self.look()
        deadline = None if timeout is None else time.monotonic() + timeout
        self._waiter = waiter
        if self._wanted is not None and self._wanted():
            self.pending = True
        try:
            while True:
                done = self._reactor.run_until(waiter, _seconds_until(deadline), self)
                if not self.pending:
                    return done
                self.deliver()
                if self.pending:  # not here: the next safe point will do
                    return self._reactor.run_until(waiter, _seconds_until(deadline))
        finally:
            self._waiter = None
            if self._noted:
                self.deliver()

    def deliver(self) -> None:
        """Handle what was put off, if this is a safe point; raises what the handlers raise."""
        if threading.get_ident() != MAIN or not self._may_raise(None):
            return
        self.pending = False
        if self._wanted is not None and self._wanted():
            self.forget_cancellation()
            raise KeyboardInterrupt
        noted = self._take()
        if noted is not None:
            handler, number = noted
            try:
                handler(number, sys._getframe())
            finally:
                self.deliver()

    def forget_cancellation(self) -> None:
        """Forget the signal that cancels the task of this worker: it has been answered, or the
        task has ended. Still noted, it would hide that of the next task, or interrupt it."""
        self.pending = False
        if self._noted:
            self._noted = [noted for noted in self._noted if noted[1] != _signal.SIGINT]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Handle no signal in this block, whatever code it calls; but then."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if threading.get_ident() == MAIN:
                self.deliver()
            else:
                self._hand_over()


def _is_pickling(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PICKLING):
            return True
        frame = frame.f_back
    return False


def _seconds_until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _report_errors(handler: Handler, number: int, frame: FrameType | None) -> None:
    """Call a handler for which nobody waits any more: its task has ended."""
    try:
        handler(number, frame)
    except BaseException:
        sys.excepthook(*sys.exc_info())


def _is_asyncio(handler: Handler) -> bool:
    """Return whether asyncio has installed it: a placeholder, where the event loop learns of
    the signal by itself, or what `asyncio.run` takes back only if it finds the very same again."""
    function = getattr(handler, "func", handler)  # the latter is a partial of a method
    return getattr(function, "__module__", "") in ("asyncio.unix_events", "asyncio.runners")
