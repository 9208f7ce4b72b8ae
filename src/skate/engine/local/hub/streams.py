"""The items of a streaming task, between its worker and its consumer."""

from __future__ import annotations

from collections.abc import Callable


class ItemStream:
    """Items by index until they are taken. `finished` once the task has ended, `abandoned` if its
    consumer wants no more."""

    __slots__ = ("_waiting", "abandoned", "finished", "items", "produced", "taken")

    def __init__(self) -> None:
        self.items: dict[int, int] = {}  # index -> id, not taken yet
        self.produced: int = 0
        self.taken: int = 0  # the consumer has all items before this one
        self.finished: bool = False
        self.abandoned: bool = False
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def add(self, index: int, id: int) -> None:
        self.items[index] = id
        self.produced = max(self.produced, index + 1)
        self._tell()

    def finish(self) -> None:
        self.finished = True
        self._tell()

    def abandon(self) -> list[int]:
        """Take no more items, and return those that are there, to be dropped."""
        self.abandoned = True
        dropped, self.items = list(self.items.values()), {}
        self._tell()
        return dropped

    def ready(self, index: int) -> bool:
        return index in self.items or self.ended(index)

    def ended(self, index: int) -> bool:
        return self.abandoned or (self.finished and index >= self.produced)

    def when_ready(self, index: int, tell: Callable[[], None]) -> None:
        if self.ready(index):
            tell()
        else:
            self._waiting.append((index, tell))

    def forget(self, tell: Callable[[], None]) -> None:
        """Forget a call that `when_ready` was given: nobody waits for it any longer."""
        self._waiting = [pair for pair in self._waiting if pair[1] != tell]

    def _tell(self) -> None:
        ready = [pair for pair in self._waiting if self.ready(pair[0])]
        if ready:
            self._waiting = [pair for pair in self._waiting if not self.ready(pair[0])]
            for _, tell in ready:
                tell()
