"""What workers have printed lately, for `skate logs` and `skate.util.state.get_log`."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

_MOST_CHARACTERS = 1 << 20


class Printed(NamedTuple):
    """A piece of output: whole lines, most of the time."""

    number: int  # grows by one with each
    time: float
    pid: int  # 0: written below Python, by nobody knows whom
    stream: int  # 1 is standard output, 2 standard error
    label: str  # the function or actor
    text: str
    task: int  # that printed it; 0: none
    actor: int  # of whose process it is; 0: of none


class RecentOutput:
    """Keeps the last million characters."""

    def __init__(self) -> None:
        self._kept: deque[Printed] = deque()
        self._size = 0
        self._number = 0

    def add(
        self, pid: int, stream: int, label: str, text: str, task: int = 0, actor: int = 0
    ) -> None:
        """Keep a piece, and let go of the oldest ones."""
        self._number += 1
        self._size += len(text)
        self._kept.append(
            Printed(self._number, time.time(), pid, stream, label, text, task, actor)
        )
        while self._size > _MOST_CHARACTERS and len(self._kept) > 1:
            self._size -= len(self._kept.popleft().text)

    def since(self, number: int) -> list[dict[str, object]]:
        """Return the pieces after that number, as rows."""
        return [piece._asdict() for piece in list(self._kept) if piece.number > number]
