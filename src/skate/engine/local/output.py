"""What workers print, on the driver's terminal.

Python's own prints arrive as LOG messages, in order with results, and get `(name pid=…)` in
front. What is written below Python (C libraries, subprocesses, the interpreter's last words) goes
to two pipes that all workers share, and is passed on as it is.
"""

from __future__ import annotations

import os
import sys

from skate.engine.local.reactor import Reactor


class Output:
    def __init__(self, reactor: Reactor, enabled: bool) -> None:
        self._reactor = reactor
        self._enabled = enabled
        self._readers: list[int] = []
        self.descriptors: list[int] = []  # for the workers' stdout and stderr
        for number in (1, 2):
            if enabled:
                self._open_pipe(number)
            else:
                self.descriptors.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))

    def _open_pipe(self, number: int) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        self._readers.append(reader)
        self.descriptors.append(writer)
        self._reactor.add(reader, lambda: self._pass_on(number, reader))

    def _pass_on(self, number: int, reader: int) -> None:
        try:
            data = os.read(reader, 65536)
        except BlockingIOError:
            return
        self._write(number, data.decode(errors="replace"))

    def log(self, pid: int, number: int, label: str, text: str) -> None:
        """Lines that a task or actor printed."""
        if self._enabled:
            prefix = f"({label} pid={pid}) "
            self._write(number, "".join(prefix + line for line in text.splitlines(True)))

    def _write(self, number: int, text: str) -> None:
        stream = sys.stdout if number == 1 else sys.stderr
        try:
            stream.write(text)
            stream.flush()
        except Exception:  # closed, absent, or the user's own and broken: not the engine's matter
            pass

    def close(self) -> None:
        for number, reader in enumerate(self._readers, start=1):
            self._pass_on(number, reader)
        self.close_descriptors()

    def close_descriptors(self) -> None:
        for descriptor in (*self._readers, *self.descriptors):
            os.close(descriptor)
