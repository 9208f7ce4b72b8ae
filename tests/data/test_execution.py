"""How many jobs run, what waits, and what is left of an input that gives no rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skate
import skate.data
from skate.data._execution.compute import TaskPoolStrategy
from skate.data._execution.jobs import RemoteJob
from skate.data._execution.stages import TaskPool
from skate.data._execution.stats import StageStats
from skate.data._execution.transforms import TransformChain, bytes_of, portions
from tests.support import Tally, eventually, local_only

pytestmark = pytest.mark.usefixtures("engine")


@local_only
def test_concurrency_is_an_upper_bound(tmp_path: Any) -> None:
    mark = tmp_path / "running"

    def alone(batch: Any) -> Any:
        mark.touch(exist_ok=False)  # raises if another one runs
        time.sleep(0.02)
        mark.unlink()
        return batch

    dataset = skate.data.range(8, override_num_blocks=8).map_batches(alone, concurrency=1)
    assert dataset.count() == 8


@local_only
def test_a_slow_consumer_holds_back_a_job_that_makes_much(tmp_path: Any) -> None:
    def many(batch: Any) -> Any:
        for number in range(60):
            (tmp_path / str(number)).touch()
            yield {"x": np.full((1, 100_000), number)}

    context = skate.data.DataContext.get_current().copy()
    context.target_max_block_size = 500_000
    with skate.data.DataContext.current(context):
        dataset = skate.data.range(1).map_batches(many)
        for taken, batch in enumerate(dataset.iter_batches(batch_size=None, prefetch_batches=0)):
            assert (batch["x"] == taken).all()
            if taken == 20:
                made = len(list(tmp_path.iterdir()))
                break
    assert made < 45


@local_only
@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_slow_consumer_holds_back_a_fast_source(context, tally: Tally, prefetch: int) -> None:
    def noted(batch: Any) -> Any:
        tally.add()
        return batch

    limits = skate.data.ExecutionResources(object_store_memory=3 * 8)  # the bytes of three rows
    context.execution_options = skate.data.ExecutionOptions(resource_limits=limits)
    dataset = skate.data.range(100, override_num_blocks=100).map_batches(noted, batch_size=None)
    for taken, _ in enumerate(dataset.iter_batches(batch_size=1, prefetch_batches=prefetch), 1):
        # Jobs that run, those that are finished, and what was fetched ahead.
        assert len(tally) <= taken + 16 + prefetch
    assert len(tally) == 100


@local_only
@pytest.mark.parametrize(
    "read",
    [
        lambda ds: ds.iter_batches(batch_size=1, prefetch_batches=0),
        lambda ds: ds.iter_rows(),
        lambda ds: ds.streaming_split(1)[0].iter_rows(),
    ],
    ids=["batches", "rows", "split"],
)
def test_work_goes_on_while_the_consumer_rests(tally: Tally, read: Any) -> None:
    def noted(batch: Any) -> Any:
        tally.add()
        return batch

    dataset = skate.data.range(40, override_num_blocks=40).map_batches(noted, batch_size=None)
    items = iter(read(dataset))
    next(items)
    eventually(lambda: len(tally) == 40)  # though nothing more is asked for
    assert len(list(items)) == 39


class TestPortions:
    def test_large_results_are_measured_one_by_one(self) -> None:
        rows = [np.zeros(1000) for _ in range(10)]
        assert [len(part) for part in portions(iter(rows), 16_000)] == [2] * 5

    def test_small_ones_are_not(self) -> None:
        rows = [{"x": 1.0}] * 1000
        assert [len(part) for part in portions(iter(rows), 1 << 20)] == [1000]

    def test_all_of_them_come(self) -> None:
        rows = list(range(777))
        assert [row for part in portions(iter(rows), 100) for row in part] == rows

    def test_sizes(self) -> None:
        assert bytes_of({"a": np.zeros(10), "b": "text"}) == 84
        assert bytes_of([1.0, 2.0]) == 24


@pytest.mark.engines("local")
def test_a_buffer_of_ones_own():
    dataset = skate.data.range(4, override_num_blocks=2).map(
        lambda row: row, ray_remote_args_fn=lambda: {"_generator_backpressure_num_objects": 2}
    )
    assert dataset.count() == 4


@pytest.mark.engines("local")
def test_blocks_of_a_byte(context):
    context.target_max_block_size = 1
    assert skate.data.range(3).map(lambda row: row).materialize().num_blocks() == 3


@pytest.mark.engines("inline")
def test_options_by_a_function():
    ds = skate.data.range(2).map(lambda row: row, ray_remote_args_fn=lambda: {"num_cpus": 0.5})
    assert ds.count() == 2
    with pytest.raises(ValueError, match="num_cups"):
        skate.data.range(2).map(lambda row: row, ray_remote_args_fn=lambda: {"num_cups": 1})


def test_jobs_that_wait_for_their_turn_begin_when_a_first_one_has_ended() -> None:
    """Until then they would only take the processors from those whose rows come first."""
    pool = TaskPool(TransformChain([], "Nothing"), TaskPoolStrategy(), {})
    assert pool.has_room(pool.window - 1, 0)
    assert not pool.has_room(pool.window, 0)
    job, stats = pool.submit([pa.table({"x": [1]})]), StageStats("Nothing", "tasks")
    while not job.done:
        assert isinstance(job, RemoteJob)
        skate.wait([job.generator])
        job.poll(stats)
    assert stats.rows == 1
    assert pool.has_room(pool.window, 0)


@local_only
@pytest.mark.init(num_cpus=2)
@pytest.mark.parametrize("after", [{"num_cpus": 1}, {"num_cpus": 1, "concurrency": 1}], ids=str)
def test_jobs_that_hold_what_the_next_stage_needs_run_to_their_end(
    after: Any, context: skate.data.DataContext
) -> None:
    def many(batch: Any) -> Any:
        for number in range(40):
            yield {"number": np.array([number])}

    class Same:
        def __call__(self, batch: Any) -> Any:
            return batch

    function = Same if "concurrency" in after else lambda batch: batch
    context.target_max_block_size = 1  # a block for each number: more than are held
    needs = {"num_cpus": 1} if "concurrency" in after else {"num_cpus": 2}
    made = skate.data.range(2, override_num_blocks=2).map_batches(many, batch_size=None, **needs)
    found = made.map_batches(function, batch_size=None, **after).take_all()
    assert sorted(row["number"] for row in found) == sorted([*range(40)] * 2)
