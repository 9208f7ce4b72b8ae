"""Jobs of a stage: one run of its chain each, in a process or in a thread of this one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import skate
from skate.data._arrow.blocks import Block
from skate.data._execution.bundles import Bundle, bundle_of
from skate.data._execution.stats import StageStats


class StageJob(ABC):
    """One run of a chain. `poll` gives the blocks that are finished; `done` when no more come."""

    done = False
    start: int | None = None  # see `Bundle.start`; of what comes out first
    pieces = 0  # of input that it was given

    @abstractmethod
    def poll(self, stats: StageStats) -> list[Bundle]:
        """Return what is new, without waiting."""

    def end(self) -> None:
        """Note that no more will come of the job."""
        self.done = True

    @abstractmethod
    def cancel(self) -> None:
        """Stop the job, since nobody wants the rest."""


class RemoteJob(StageJob):
    """A run elsewhere, which sends its blocks one by one: a function may make much of little."""

    def __init__(self, generator: Any, on_end: Callable[[], None] | None = None) -> None:
        self.generator = generator
        self.on_end = on_end
        self._block: skate.ObjectRef[Any] | None = None

    def poll(self, stats: StageStats) -> list[Bundle]:
        while self._next_is_there():
            ref = next(self.generator, None)
            if ref is None:
                self.end()
                if self._block is not None:  # without its meta: the error that ended the job
                    skate.get(self._block)
                return []
            if self._block is None:
                self._block = ref
                continue
            rows, size, seconds, *place = skate.get(ref)
            stats.add(rows, size, seconds)
            block, self._block = self._block, None
            return [Bundle(None, block, rows, size, *place)]
        return []

    def _next_is_there(self) -> bool:
        return not self.done and bool(skate.wait([self.generator], timeout=0)[0])

    def end(self) -> None:
        if not self.done and self.on_end is not None:
            self.on_end()
        # It knows the actor, which has to go although a traceback that is kept shows this job.
        self.on_end = None
        super().end()

    def cancel(self) -> None:
        self.on_end = None
        if not self.done:
            self.generator.close()


class ThreadJob(StageJob):
    """A run in a thread of this process."""

    def __init__(self, future: Future[tuple[list[Block], float]]) -> None:
        self.future = future

    def wait(self) -> None:
        wait([self.future])

    def poll(self, stats: StageStats) -> list[Bundle]:
        if not self.future.done():
            return []
        self.done = True
        blocks, seconds = self.future.result()
        found = list(map(bundle_of, blocks))
        for bundle in found:
            stats.add(bundle.rows, bundle.size, seconds / len(found))
        return found

    def cancel(self) -> None:
        self.future.cancel()
