"""Waiting for workers, any of which may die, or stop for good without dying."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import skate
from skate.exceptions import GetTimeoutError, SkateError
from skate.train._errors import WorkerHungError

LOOK_SECONDS = 1.0  # between two looks at workers that say nothing
HUNG_VARIABLE = "SKATE_TRAIN_HUNG_AFTER"
HUNG_SECONDS = 60.0  # without an answer from a worker's process
STARTING_FACTOR = 10  # for a process that has never answered: it may be importing

Silence = Callable[[list[int], float], None]


class RankFailed(Exception):  # noqa: N818 - not an error that anybody else sees
    """A rank has failed."""

    def __init__(self, rank: int, error: BaseException) -> None:
        super().__init__(rank, error)
        self.rank = rank
        self.error = error


class WorkerMonitor:
    """Waits for answers of workers, and notices when the process of one does not answer any more,
    however busy its loop is."""

    def __init__(self, workers: list[Any]) -> None:
        self._workers = workers
        self._limit = float(os.environ.get(HUNG_VARIABLE, HUNG_SECONDS))
        self._pings: dict[int, tuple[Any, float]] = {}
        self._started: set[int] = set()  # ranks that have answered at least once

    def forget(self, rank: int) -> None:
        """Forget what is known of this rank, whose worker is another one from now on."""
        self._pings.pop(rank, None)
        self._started.discard(rank)

    def renumber(self, moved: dict[int, int]) -> None:
        """Give workers other ranks from now on, by their old ones; those that have none are
        gone."""
        self._pings = {moved[rank]: p for rank, p in self._pings.items() if rank in moved}
        self._started = {moved[rank] for rank in self._started if rank in moved}

    def answers(
        self, asked: dict[Any, int], silence: Silence | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield the rank and the value of each of these references as they come.

        Args:
            asked: The ranks by reference, which is taken out when its value has come.
            silence: Is told the ranks that are missing and for how many seconds, whenever nothing
                has come for a while.

        Raises:
            RankFailed: For the first rank that fails or hangs.
        """
        since = time.monotonic()
        while asked:
            ready, _ = skate.wait(list(asked), num_returns=1, timeout=LOOK_SECONDS)
            for ref in ready:
                rank = asked.pop(ref)
                try:
                    value = skate.get(ref)
                except Exception as error:
                    raise RankFailed(rank, error) from error
                self._started.add(rank)
                yield rank, value
            if not ready:
                missing = sorted(asked.values())
                self._ping(missing)
                if silence is not None:
                    silence(missing, time.monotonic() - since)

    def _ping(self, ranks: list[int]) -> None:
        now = time.monotonic()
        for rank in ranks:
            if rank not in self._pings:
                self._pings[rank] = (self._workers[rank].ping.remote(), now)
            ping, sent = self._pings[rank]
            try:
                skate.get(ping, timeout=0)
                del self._pings[rank]
            except GetTimeoutError:
                limit = self._limit * (1 if rank in self._started else STARTING_FACTOR)
                if now - sent > limit:
                    raise RankFailed(rank, _hung(rank, now - sent)) from None
            except SkateError:
                del self._pings[rank]  # it is dead, as its pending answer says in a moment


def _hung(rank: int, seconds: float) -> WorkerHungError:
    return WorkerHungError(
        f"the process of rank {rank} has not answered for {seconds:.0f} s. If it may be busy "
        f"outside of Python for that long, set {HUNG_VARIABLE} to more seconds"
    )
