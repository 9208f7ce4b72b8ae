"""Where the time of an execution went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

from skate.data._execution.bottleneck import bottleneck

Handed = TypeVar("Handed")


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

    def finish(self) -> None:
        self.wall_seconds = time.perf_counter() - self.started

    def __str__(self) -> str:
        work = sum(stage.busy_seconds for stage in self.stages)
        first = bottleneck(self)
        lines = [first] if first else []
        for number, stage in enumerate(self.stages, start=1):
            lines.append(f"Operator {number} {stage}")
            if work:
                lines.append(f"* {100 * stage.busy_seconds / work:.0f} % of the work")
        if self.wall_seconds is not None:
            rate = self.rows / self.wall_seconds if self.wall_seconds else 0.0
            lines.append(
                f"Dataset: {self.rows} rows in {time_text(self.wall_seconds)}, "
                f"{rate:,.0f} rows/s, {time_text(work)} of work"
            )
        return "\n".join(lines)


def live_rows_of(stats: ExecutionStats) -> list[dict[str, object]]:
    """Return a row per operator of an execution, for those who look in from outside."""
    over = stats.wall_seconds
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
            "seconds": time.perf_counter() - stats.started if over is None else over,
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
