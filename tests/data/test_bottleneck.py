"""What `stats()` says first: the operator that took longest, and what to change."""

from __future__ import annotations

import time
from typing import Any

import pytest

import skate
from skate.data._execution.bottleneck import bottleneck
from skate.data._execution.stats import ExecutionStats

Stages = list[tuple[str, str, list[float]]]  # name, where, seconds of each block

SLOW_CONSUMER = 6.0  # seconds
CASES: dict[str, tuple[Stages, float, str, str]] = {
    "one block": (
        [("ReadParquet", "tasks", [0.1]), ("MapBatches(f)", "tasks", [2.0])],
        2.2, "MapBatches(f), 95% of the work", "repartition(n)",
    ),
    "one slow block": (
        [("Map(f)", "tasks", [0.05] * 20 + [3.0])], 3.2, "Map(f)", "makes them alike",
    ),
    "many tiny blocks": (
        [("Map(f)", "tasks", [0.003] * 1000)], 2.0, "Map(f)", "1000 blocks are too small",
    ),
    "too few actors": (
        [("ReadRange", "tasks", [0.01] * 8), ("MapBatches(Model)", "actors, up to 1", [1.0] * 8)],
        8.1, "MapBatches(Model)", "raise concurrency",
    ),
    "reading": (
        [("ReadParquet", "tasks", [1.0] * 4), ("Map(f)", "tasks", [0.1] * 4)],
        2.2, "ReadParquet", "columns=[...]",
    ),
    "a slow function": (
        [("ReadParquet", "tasks", [0.1] * 8), ("Map(f)", "tasks", [1.0] * 8)],
        4.5, "Map(f)", "About 1.8 processes worked on it",
    ),
    "a sort": (
        [("ReadParquet", "tasks", [0.1] * 4), ("Sort", "driver", [2.0])],
        2.5, "Sort", "filter and select columns before it",
    ),
    "a slow consumer": (
        [("ReadParquet", "tasks", [0.1] * 4), ("Map(f)", "tasks", [0.1] * 4)],
        8.0, "what reads the dataset", "prefetch_batches",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("stages", "wall", "who", "advice"), CASES.values(), ids=CASES.keys())
def test_what_to_change(stages: Stages, wall: float, who: str, advice: str) -> None:
    stats = ExecutionStats()
    for name, where, blocks in stages:
        stage = stats.stage(name, where)
        for seconds in blocks:
            stage.add(100, 1000, seconds)
    stats.wall_seconds = wall
    if who == "what reads the dataset":
        stats.consumer_seconds = SLOW_CONSUMER
    first = str(stats).splitlines()[0]
    assert first == bottleneck(stats)
    assert first.startswith(f"Bottleneck: {who}")
    assert advice in first


def test_what_is_over_soon_needs_no_advice() -> None:
    stats = ExecutionStats()
    stats.stage("Map(f)", "tasks").add(1, 1, 0.01)
    stats.wall_seconds = 0.02
    assert str(stats).startswith("Operator 1 Map(f)")


def test_of_a_dataset_that_was_run(engine: str) -> None:
    def slow(batch: Any) -> Any:
        time.sleep(0.2)
        return batch

    dataset = skate.data.range(20, override_num_blocks=2).map_batches(slow, batch_size=10)
    dataset.take_all()
    assert "MapBatches(slow)" in dataset.stats().splitlines()[0]


def test_the_time_of_who_reads_is_measured(engine: str) -> None:
    dataset: Any = skate.data.range(20, override_num_blocks=2)
    for _ in dataset.iter_batches(batch_size=10, prefetch_batches=0):
        time.sleep(0.05)
    assert 0.05 <= dataset._stats.consumer_seconds <= dataset._stats.wall_seconds
