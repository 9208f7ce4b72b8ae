"""Statistics: where the time went."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


def test_stats_say_what_ran() -> None:
    for rows, name in (
        (skate.data.from_items([1, 2]), "FromItems"),
        (skate.data.from_arrow(pa.table({"a": [1]})), "FromArrow"),
        (skate.data.range(5).materialize(), "ReadRange"),
    ):
        rows.take(1)
        assert f"Operator 1 {name}: " in rows.stats()
        assert "rows in" in rows.stats()


def test_a_look_at_rows_in_memory_leaves_the_statistics():
    kept = skate.data.range(20, override_num_blocks=4).map_batches(lambda batch: batch)
    kept = kept.materialize()
    before = kept.stats()
    assert "4 blocks, 20 rows" in before
    kept.take(1)
    kept.show(1)
    kept._repr_html_()
    assert kept.stats() == before


def test_stats_before_anything_has_run():
    assert skate.data.range(3).stats() == ""


def test_statistics_say_where_the_time_went():
    def slow(batch):
        time.sleep(0.05)
        return batch

    class Fast:
        def __call__(self, batch):
            return batch

    dataset = skate.data.range(10, override_num_blocks=1).map_batches(Fast, concurrency=1)
    dataset = dataset.map_batches(slow)
    dataset.materialize()
    _, second = dataset.get_stats_summary().stages
    assert second.busy_seconds >= 0.05
    stats = dataset.stats()
    for part in ("2 MapBatches(slow): 1 blocks, 10 rows", "% of the work", "rows/s"):
        assert part in stats


def test_an_operator_is_not_charged_for_its_input():
    def slow(batch):
        time.sleep(0.2)
        return batch

    dataset = skate.data.range(10, override_num_blocks=1).map_batches(slow).sort("id")
    start = time.perf_counter()
    dataset.materialize()
    elapsed = time.perf_counter() - start
    *_, sort = dataset.get_stats_summary().stages
    assert sort.busy_seconds <= elapsed - 0.2
