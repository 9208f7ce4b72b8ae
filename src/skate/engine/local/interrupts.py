"""Ctrl-C: the prompt comes back and the engine stays whole.

Python may run a signal handler between any two instructions of the main thread, also in the
middle of the hub's bookkeeping or while the lead of the reactor changes hands. So, while the
handler is ours, an interrupt inside the engine's own code, or while the main thread leads or has
the engine's lock, is only noted, and raised as KeyboardInterrupt where everything is consistent:
when `get` or a submission returns.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps each call into enums, 3 µs
import os
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from skate.engine.local.reactor import Reactor, Waiter

_MAIN = threading.main_thread().ident or 0
_DESTRUCTORS = ("_ref_gone", "_unmapped", "unmap")
_ENGINE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Interrupts:
    def __init__(
        self,
        reactor: Reactor,
        lock: Any,  # the engine's RLock
        wanted: Callable[[], bool] | None = None,
    ) -> None:
        self.pending = False
        self._reactor = reactor
        self._lock = lock
        self._closed = False
        self._wanted = wanted  # asked before anything is interrupted
        self._waiter: Waiter | None = None
        self._installed = False
        self.install()

    def install(self) -> None:
        """Take over from Python's default handler, and only from that one."""
        if threading.current_thread() is not threading.main_thread():
            return
        current = _signal.getsignal(_signal.SIGINT)
        if current is _signal.default_int_handler or _is_left_over(current):
            _signal.signal(_signal.SIGINT, self._handle)
            self._installed = True

    def trigger(self, thread: int) -> None:
        """Interrupt the main thread, also inside a system call."""
        _signal.pthread_kill(thread, _signal.SIGINT)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._wanted is not None and not self._wanted():
            return  # what was to be interrupted has ended by itself
        code = frame.f_code if frame is not None else None
        inside = code is not None and code.co_filename.startswith(_ENGINE)
        if not inside and not self._reactor.leads() and not self._lock._is_owned():
            raise KeyboardInterrupt
        assert code is not None
        if code.co_name in _DESTRUCTORS:
            # No safe point need follow, and Python ignores what is raised here: come back soon.
            self._reactor.call_later(0.001, lambda: self.trigger(_MAIN))
            return
        self.pending = True
        self._reactor.interrupt()
        if self._waiter is not None:
            self._waiter.wake()

    def wait(self, waiter: Waiter, timeout: float | None) -> bool:
        """`run_until`, ended early by Ctrl-C."""
        if threading.get_ident() != _MAIN:
            return self._reactor.run_until(waiter, timeout)
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            self.install()
        self._waiter = waiter
        if self._wanted is not None and self._wanted():
            self.pending = True
        try:
            return self._reactor.run_until(waiter, timeout, self)
        finally:
            self._waiter = None
            if self.pending:
                self.deliver()

    def end_wait(self) -> None:
        """Interrupt the main thread if it waits, and only there. From any thread."""
        if self._waiter is not None:
            self.pending = True
            self._reactor.interrupt()
            self._waiter.wake()

    def deliver(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.pending = False
            raise KeyboardInterrupt

    def close(self) -> None:
        self._closed = True
        handler: Any = _signal.getsignal(_signal.SIGINT) if self._installed else None
        if handler == self._handle and threading.current_thread() is threading.main_thread():
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def _is_left_over(handler: Any) -> bool:
    """Whether it belongs to an engine that was shut down by another thread than the main one."""
    owner = getattr(handler, "__self__", None)
    return isinstance(owner, Interrupts) and owner._closed
