"""Where the time of an execution went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

from skate._core.errors import as_of_a_task
from skate.data._execution.bottleneck import bottleneck
from skate.data._execution.bundles import Bundle

Handed = TypeVar("Handed")

_LEAST_SHARE = 0.02  # from which the time that is left can be told
_LEAST_SECONDS = 1.0
_MANY_SECONDS = 120  # from which minutes are enough


@dataclass
class StageStats:
    """One stage: what it made, and how long its tasks worked (their sum, over all processes)."""

    name: str
    where: str
    blocks: int = 0
    rows: int = 0
    bytes: int = 0
    busy_seconds: float = 0.0
    shortest: float = inf
    longest: float = 0.0
    pieces: int = 0  # of the source, or blocks that were kept, which it is given; 0: unknown
    pieces_done: int = 0

    @property
    def is_elsewhere(self) -> bool:
        """Whether tasks or actors do it."""
        return self.where.startswith(("tasks", "actors"))

    def add(self, rows: int, size: int, seconds: float) -> None:
        self.blocks += 1
        self.rows += rows
        self.bytes += size
        self.busy_seconds += seconds
        self.shortest = min(self.shortest, seconds)
        self.longest = max(self.longest, seconds)

    def __str__(self) -> str:
        if not self.blocks:
            return f"{self.name}: nothing ran"
        mean = self.busy_seconds / self.blocks
        return (
            f"{self.name}: {self.blocks} blocks, {self.rows} rows, {size_text(self.bytes)} "
            f"({self.where})\n"
            f"* time per block: {time_text(self.shortest)} min, {time_text(mean)} mean, "
            f"{time_text(self.longest)} max, {time_text(self.busy_seconds)} total"
        )


@dataclass
class ExecutionStats:
    """All stages of one execution."""

    stages: list[StageStats] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    wall_seconds: float | None = None
    rows: int = 0
    consumer_seconds: float = 0.0  # that whoever reads the dataset took for what it had

    def stage(self, name: str, where: str) -> StageStats:
        self.stages.append(StageStats(name, where))
        return self.stages[-1]

    def handed_out(self, bundle: Handed) -> Iterator[Handed]:
        """Yield a bundle, and measure how long it takes until another one is wanted."""
        start = time.perf_counter()
        yield bundle
        self.consumer_seconds += time.perf_counter() - start

    @property
    def share_done(self) -> float | None:
        """How much of the input has been dealt with; None if nobody knows how much there is."""
        known = [stage for stage in self.stages if stage.pieces]
        pieces = sum(stage.pieces for stage in known)
        done = sum(min(stage.pieces_done, stage.pieces) for stage in known)
        return done / pieces if pieces else None

    def remaining(self, seconds: float) -> str:
        """Return how much of the input is done and how long the rest will take, in words.

        Args:
            seconds: How long it has taken so far.
        """
        share = self.share_done
        if share is None:
            return ""
        if share < _LEAST_SHARE or seconds < _LEAST_SECONDS:
            return f"{share:.0%} of the input"
        left = round(seconds * (1 - share) / share)
        text = f"{left} s" if left < _MANY_SECONDS else f"{left // 60} min"
        return f"{share:.0%} of the input, about {text} left"

    def finish(self) -> None:
        self.wall_seconds = time.perf_counter() - self.started

    def __str__(self) -> str:
        work = sum(stage.busy_seconds for stage in self.stages)
        first = bottleneck(self)
        lines = [first] if first else []
        for number, stage in enumerate(self.stages, start=1):
            lines.append(f"Operator {number} {stage}")
            if work:
                lines.append(f"* {stage.busy_seconds / work:.0%} of the work")
        if self.wall_seconds is not None:
            rate = self.rows / self.wall_seconds if self.wall_seconds else 0.0
            lines.append(
                f"Dataset: {self.rows} rows in {time_text(self.wall_seconds)}, "
                f"{rate:,.0f} rows/s, {time_text(work)} of work"
            )
        return "\n".join(lines)


class Meter:
    """Measures an exchange: its time is what is left of that between outputs after waiting for
    its inputs."""

    def __init__(self, stats: StageStats) -> None:
        self._stats = stats
        self._waited = 0.0

    def input(self, bundles: Iterator[Bundle]) -> Iterator[Bundle]:
        while True:
            start = time.perf_counter()
            bundle = next(bundles, None)
            self._waited += time.perf_counter() - start
            if bundle is None:
                return
            yield bundle

    def output(self, bundles: Iterator[Bundle]) -> Iterator[Bundle]:
        while True:
            start, waited = time.perf_counter(), self._waited
            try:
                bundle = next(bundles, None)
            except Exception as error:
                raise as_of_a_task(error, self._stats.name) from None
            if bundle is None:
                return
            spent = time.perf_counter() - start - (self._waited - waited)
            self._stats.add(bundle.rows, bundle.size, spent)
            yield bundle


def live_rows_of(stats: ExecutionStats) -> list[dict[str, object]]:
    """Return a row per operator of an execution, for those who look in from outside."""
    over = stats.wall_seconds
    seconds = time.perf_counter() - stats.started if over is None else over
    return [
        {
            "dataset": f"{id(stats):x}",
            "state": "RUNNING" if over is None else "FINISHED",
            "operator": stage.name,
            "where": stage.where,
            "blocks": stage.blocks,
            "rows": stage.rows,
            "bytes": stage.bytes,
            "busy_seconds": stage.busy_seconds,
            "pieces": stage.pieces,
            "pieces_done": stage.pieces_done,
            "seconds": seconds,
            "remaining": stats.remaining(seconds) if over is None else "",
        }
        for stage in list(stats.stages)
    ]


def time_text(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def size_text(size: float) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"
