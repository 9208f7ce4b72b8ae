"""SIGTERM to a worker: it ends, but not in the middle of what it can still finish or undo.

What runs on the main thread, a task or a method of an ordinary actor, is left by a `SystemExit`,
so that its `finally` blocks run. Calls of actors that run several at a time go on to their end,
and no other begins. Then the actor cleans up, and the process ends by the signal after all: the
hub tells of it as of any other death. A second SIGTERM ends the process at once.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.engine.local.execution import Execution


class Terminated(SystemExit):
    """Raised in user code when its process is asked to end; with a shell's code for that."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


class Termination:
    """The handler of SIGTERM in a worker, unless the user's code has one of its own."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._masks = threading.local()  # signals that a thread had blocked before its fork
        self._asked = False
        self._put_off = False  # the interrupts call it once more for the same signal

    def install(self) -> None:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self)
            os.register_at_fork(
                before=self._block,
                after_in_parent=self._unblock,
                after_in_child=self._detach_in_child,
            )

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._asked and not self._put_off:
            _end_now()
        self._asked = self._put_off = True
        if self._execution.main_is_busy():
            self._execution.interrupts.handle(self._begin, number, frame)
        else:
            self._begin(number, frame)

    def _begin(self, number: int, frame: FrameType | None) -> None:
        self._put_off = False
        if self._execution.main_is_busy():
            self._execution.exiting = True
            raise Terminated
        # Not here: the main thread may be anywhere in the engine's own code.
        self._execution.engine.reactor.call_later(0, self._execution.wind_down)

    # A process that user code forks ends by SIGTERM as any other does, also if that is sent before
    # the child could say so: Python forgets the signals that came during a fork.

    def _block(self) -> None:
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _detach_in_child(self) -> None:
        if signal.getsignal(signal.SIGTERM) is self:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._unblock()

    def finish(self) -> None:
        """End the process by the signal, if that is why it ends."""
        if self._asked:
            _end_now()


def _end_now() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
