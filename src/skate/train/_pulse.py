"""Waiting for workers, any of which may die, or stop for good without dying."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import skate
from skate.exceptions import GetTimeoutError, SkateError
from skate.train._errors import WorkerHungError

LOOK_AROUND = 1.0  # seconds between two looks at workers that say nothing
HUNG_VARIABLE = "SKATE_TRAIN_HUNG_AFTER"
HUNG_AFTER = 60.0  # seconds without an answer from a worker's process
STARTING = 10  # times as long may a process take that has never answered: it may be importing

Silence = Callable[[list[int], float], None]


class WorkerFailed(Exception):  # noqa: N818 - not an error that anybody else sees
    """A rank has failed."""

    def __init__(self, rank: int, error: BaseException) -> None:
        super().__init__(rank, error)
        self.rank = rank
        self.error = error


class Pulse:
    """Whether the processes of the workers still answer, however busy their loops are."""

    def __init__(self, workers: list[Any]) -> None:
        self._workers = workers
        self._limit = float(os.environ.get(HUNG_VARIABLE, HUNG_AFTER))
        self._pings: dict[int, tuple[Any, float]] = {}
        self._started: set[int] = set()  # ranks that have answered at least once

    def answers(
        self, asked: dict[Any, int], silence: Silence | None = None
    ) -> Iterator[tuple[int, Any]]:
        """The rank and the value of each of these references, which are taken out of `asked`, as
        they come. `silence` is told the ranks that are missing, when nothing has come for a
        while. Raises WorkerFailed for the first that fails or hangs."""
        since = time.monotonic()
        while asked:
            ready, _ = skate.wait(list(asked), num_returns=1, timeout=LOOK_AROUND)
            for ref in ready:
                rank = asked.pop(ref)
                try:
                    value = skate.get(ref)
                except Exception as error:
                    raise WorkerFailed(rank, error) from error
                self._started.add(rank)
                yield rank, value
            if not ready:
                missing = sorted(asked.values())
                self._feel(missing)
                if silence is not None:
                    silence(missing, time.monotonic() - since)

    def _feel(self, ranks: list[int]) -> None:
        now = time.monotonic()
        for rank in ranks:
            if rank not in self._pings:
                self._pings[rank] = (self._workers[rank].ping.remote(), now)
            ping, sent = self._pings[rank]
            try:
                skate.get(ping, timeout=0)
                del self._pings[rank]
            except GetTimeoutError:
                limit = self._limit * (1 if rank in self._started else STARTING)
                if now - sent > limit:
                    raise WorkerFailed(rank, _hung(rank, now - sent)) from None
            except SkateError:
                del self._pings[rank]  # it is dead, as its pending answer says in a moment


def _hung(rank: int, seconds: float) -> WorkerHungError:
    return WorkerHungError(
        f"the process of rank {rank} has not answered for {seconds:.0f} s. If it may be busy "
        f"outside of Python for that long, set {HUNG_VARIABLE} to more seconds"
    )
