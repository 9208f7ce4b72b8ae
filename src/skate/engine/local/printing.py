"""Standard output and error of a worker: lines for the driver, in order with results."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from skate.engine.local import messages as m

if TYPE_CHECKING:
    from skate.engine.local.worker import WorkerEngine

Writer = object  # the piece of work that prints, or None


class Printer(io.TextIOBase):
    """Sends whole lines at once, and what a line has so far when it is flushed.

    Pieces of work that run side by side have a line each. When one ends, so does its line.
    """

    encoding = "utf-8"
    errors: str | None = "replace"

    def __init__(self, engine: WorkerEngine, number: int, original: Any) -> None:
        self._engine = engine
        self._number = number
        self._original = original
        self._unsent: dict[Writer, str] = {}  # the last, unfinished line of each
        self._open: set[Writer] = set()  # who has sent the beginning of a line

    def write(self, text: str) -> int:
        writer = self._engine.execution.current()
        line = self._unsent.pop(writer, "") + text
        end = line.rfind("\n") + 1
        if end:
            self._open.discard(writer)
            self._send(line[:end])
        if end < len(line):
            self._unsent[writer] = line[end:]
            self._engine.unfinished_lines.add(writer)
        return len(text)

    def flush(self) -> None:
        writer = self._engine.execution.current()
        line = self._unsent.pop(writer, "")
        if line:
            self._open.add(writer)
            self._send(line)

    def finish_line(self, writer: Writer) -> None:
        """End the line that the writer has begun, if any."""
        line = self._unsent.pop(writer, "")
        if line or writer in self._open:
            self._open.discard(writer)
            self._send(line + "\n")

    def _send(self, text: str) -> None:
        execution = self._engine.execution
        running = execution.current()
        task = running.id if running is not None else 0
        with self._engine.lock:
            self._engine.send(m.PrintText(self._number, execution.label(), text, task))
        self._engine.reactor.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._number

    @property
    def buffer(self) -> Any:
        return self._original.buffer
