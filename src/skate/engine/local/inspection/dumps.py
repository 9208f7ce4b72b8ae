"""Python stacks of a process that cannot answer, because C code keeps the GIL.

A signal makes `faulthandler`, which is C code and needs no GIL, append the stacks of all threads
to a file in the session's folder. The signal is SIGURG: processes without a handler ignore it, so
that one which comes too late, or to somebody else, does no harm.
"""

from __future__ import annotations

import faulthandler
import os
import signal

from skate.engine.local.inspection.traces import DUMP_PREFIX

DUMP_SIGNAL = signal.SIGURG

_FLAGS = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class StackDump:
    """Has this process write down its stacks when it gets `DUMP_SIGNAL`.

    A handler of the user's own for that signal stays in its place.

    Args:
        folder: Where the file is made, one that only this user can enter.
    """

    def __init__(self, folder: str) -> None:
        self._file = -1
        if signal.getsignal(DUMP_SIGNAL) is not signal.SIG_DFL:
            return
        path = os.path.join(folder, f"{DUMP_PREFIX}{os.getpid()}")
        try:
            self._file = os.open(path, _FLAGS, 0o600)
        except OSError:  # a full file system: no stacks then, and all else works
            return
        # Not chained: the thread that writes has the signal blocked meanwhile, which shows when
        # it is done; and system calls are restarted.
        faulthandler.register(DUMP_SIGNAL, self._file, all_threads=True, chain=False)

    def close(self) -> None:
        """Write no more, here or in a forked child. The file goes with its folder."""
        if self._file < 0:
            return
        if signal.getsignal(DUMP_SIGNAL) is signal.SIG_DFL:
            faulthandler.unregister(DUMP_SIGNAL)
        os.close(self._file)
        self._file = -1
