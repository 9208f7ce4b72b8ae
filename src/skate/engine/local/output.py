"""What workers print, on the driver's terminal.

Python's own prints arrive as LOG messages, in order with results, and get `(name pid=…)` in
front, unless a `LoggingConfig` says in each record where it comes from. A line that is not at its
end yet is continued by whoever began it; anybody else begins a new one. A bar of progress, which
its writer draws again and again from the beginning of the line, is wiped off instead: so there is
one, at the end, of whoever has drawn last. What is written below Python (C libraries,
subprocesses, the interpreter's last words) goes to two pipes that all workers share, and is passed
on as it is.
"""

from __future__ import annotations

import os
import re
import sys

from skate._core.progress_bars import (
    MAGIC,
    bars_hidden,
    close_bars,
    show_states,
    without_states,
)
from skate.engine.local.reactor import Reactor
from skate.engine.local.recent_output import RecentOutput


class Output:
    def __init__(self, reactor: Reactor, enabled: bool, prefixes: bool = True) -> None:
        self._reactor = reactor
        self._enabled = enabled
        self._prefixes = prefixes
        self.recent: RecentOutput = RecentOutput()
        self._readers: list[int] = []
        self.descriptors: list[int] = []  # for the workers' stdout and stderr
        self._unfinished: tuple[int, int, str] | None = None  # whose line is not at its end
        self._returned = False  # to the beginning of that line
        self._bar = 0  # how long that line is, if its writer redraws it: a bar of progress
        try:
            for number in (1, 2):
                if enabled:
                    self._open_pipe(number)
                else:
                    self.descriptors.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
        except BaseException:
            self.close_descriptors()
            raise

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
        text = data.decode(errors="replace")
        self.recent.add(0, number, "", text)
        self._write(number, text)

    def log(
        self, pid: int, number: int, label: str, text: str, task: int = 0, actor: int = 0
    ) -> None:
        """Show what a task or actor has printed: lines, the last one maybe not at its end."""
        if MAGIC in text:
            text = show_states(text) if self._enabled else without_states(text)
        if not text:
            return
        self.recent.add(pid, number, label, text, task, actor)
        if not self._enabled:
            return
        writer = (pid, number, label)
        continues = self._unfinished == writer
        start = "" if self._unfinished is None or continues else _left(self._bar)
        begins = not continues or self._returned
        prefix = f"({label} pid={pid}) " if self._prefixes else ""
        shown = prefixed(prefix, text, begins, continues and self._returned)
        self._unfinished = None if shown.endswith("\n") else writer
        self._returned = shown.endswith("\r")
        self._bar = _length_of_bar(shown) if "\r" in shown or not continues else self._bar
        self._write(number, start + shown)

    def _write(self, number: int, text: str) -> None:
        stream = sys.stdout if number == 1 else sys.stderr
        try:
            with bars_hidden():
                stream.write(text)
                stream.flush()
        except Exception:  # closed, absent, or the user's own and broken: not the engine's matter
            pass

    def close(self) -> None:
        for number, reader in enumerate(self._readers, start=1):
            self._pass_on(number, reader)
        close_bars()
        self.close_descriptors()

    def close_descriptors(self) -> None:
        """Close what is open, once: the numbers belong to others afterwards."""
        for owned in (self._readers, self.descriptors):
            while owned:
                os.close(owned.pop())


def _length_of_bar(shown: str) -> int:
    """Return how many characters are in the line that `shown` ends with, if it redraws it."""
    before, redraws, line = shown.rpartition("\r")
    if redraws and not line:
        line = before.rpartition("\r")[2]
    return len(line.rpartition("\n")[2]) if redraws else 0


def _left(bar: int) -> str:
    """Return what leads away from somebody else's unfinished line: a bar is wiped off, since its
    writer draws it again; anything else stays."""
    return f"\r{' ' * bar}\r" if bar else "\n"


def prefixed(prefix: str, text: str, begins: bool, returned: bool = False) -> str:
    """Return `text` with `prefix` in front of each line; of the first one only if it `begins`.

    A carriage return (one just before `text`, if `returned`) leads back to where a line begins:
    what comes next has the prefix again, or takes it away if it is nothing but blanks.
    """
    shown = []
    for part in re.findall(r"[^\r\n]*[\r\n]|[^\r\n]+", text):
        if not begins or part == "\r":
            shown.append(part)
        elif returned and not part.strip(" \r"):
            shown.append(" " * len(prefix) + part)
        else:
            shown.append(prefix + part)
        returned = part[-1] == "\r"
        begins = returned or part[-1] == "\n"
    return "".join(shown)
