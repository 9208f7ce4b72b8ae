"""How many jobs run, what waits, and what is left of an input that gives no rows."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest

import skate
import skate.data
from skate.data._execution.transforms import bytes_of, portions
from tests.support import local_only

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
def test_a_pool_grows_while_its_actors_are_busy(tmp_path: Any) -> None:
    class Noted:
        def __init__(self) -> None:
            import os

            (tmp_path / str(os.getpid())).touch()

        def __call__(self, batch: Any) -> Any:
            deadline = time.monotonic() + 60
            while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            return batch

    dataset = skate.data.range(6, override_num_blocks=6)
    assert dataset.map_batches(Noted, concurrency=(1, 2)).count() == 6
    assert len(list(tmp_path.iterdir())) == 2


def test_columns_of_an_input_without_rows_stay() -> None:
    nothing = skate.data.range(10).filter(expr="id > 100")
    assert nothing.to_pandas().columns.tolist() == ["id"]
    schema = nothing.schema()
    assert schema is not None
    assert schema.names == ["id"]
    assert skate.data.range(10).filter(lambda row: False).columns() == ["id"]


def test_an_async_class_keeps_its_event_loop() -> None:
    class Client:
        def __init__(self) -> None:
            self.queue: asyncio.Queue[int] = asyncio.Queue()
            self.loops: set[int] = set()

        async def __call__(self, batch: Any) -> Any:
            self.loops.add(id(asyncio.get_running_loop()))
            await self.queue.put(1)
            await self.queue.get()
            return {"loops": np.array([len(self.loops)])}

    dataset = skate.data.range(12, override_num_blocks=4).map_batches(Client, concurrency=1)
    assert set(dataset.to_pandas()["loops"]) == {1}


def test_an_async_function_overlaps_and_keeps_order() -> None:
    async def later(row: Any) -> Any:
        await asyncio.sleep(0.01 * (3 - row["id"] % 4))
        return {"id": row["id"]}

    rows = skate.data.range(20, override_num_blocks=2).map(later).take_all()
    assert [row["id"] for row in rows] == list(range(20))


@pytest.mark.parametrize("method", ["map_batches", "flat_map"])
def test_a_generator_that_fails_names_its_input(method: str) -> None:
    def broken(value: Any) -> Any:
        yield value
        raise ValueError("halfway")

    dataset = getattr(skate.data.range(3, override_num_blocks=1), method)(broken)
    with pytest.raises(ValueError, match="halfway") as caught:
        dataset.take_all()
    assert "(broken), on " in str(caught.value)


def test_a_row_that_is_an_array_is_called_a_row() -> None:
    def broken(row: Any) -> Any:
        raise ValueError("bad pixel")

    images = skate.data.from_items([{"image": np.zeros((4, 4))}])
    with pytest.raises(ValueError, match="bad pixel") as caught:
        images.map(broken).take_all()
    assert "on the row {'image'" in str(caught.value)


@pytest.mark.parametrize("files", [1, 3])
def test_blocks_that_fail_are_left_out_wherever_they_run(tmp_path: Any, files: int) -> None:
    for number in range(files):
        (tmp_path / f"{number}.csv").write_text("a\n1\n2\n")
    (tmp_path / "bad.csv").write_text("a,b\n1\n2,3,4\n")
    context = skate.data.DataContext.get_current().copy()
    context.max_errored_blocks = -1
    with skate.data.DataContext.current(context), pytest.warns(UserWarning, match="left out"):
        assert len(skate.data.read_csv(str(tmp_path)).take(100)) == 2 * files


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


class TestResources:
    pytestmark = pytest.mark.init(num_cpus=2, num_gpus=2)

    @local_only
    @pytest.mark.parametrize("options", [{"num_gpus": 1}, {"num_cpus": 1}])
    def test_a_pool_grows_no_further_than_the_machine(self, options: Any) -> None:
        dataset = skate.data.range(20, override_num_blocks=10)
        assert dataset.map_batches(Same, batch_size=2, concurrency=(1, 3), **options).count() == 20

    @local_only
    def test_a_pool_that_can_never_start_is_refused(self) -> None:
        with pytest.raises(ValueError, match="3 GPU together, but there are 2"):
            skate.data.range(2).map_batches(Same, batch_size=2, concurrency=3, num_gpus=1).count()

    @local_only
    def test_stages_that_can_never_run_together_are_refused(self) -> None:
        both = skate.data.range(4).map_batches(Same, concurrency=2, num_cpus=1)
        with pytest.raises(ValueError, match=r"MapBatches\(Same\).*3 CPU together"):
            both.map_batches(lambda batch: batch, num_cpus=1).count()


class Same:
    def __call__(self, batch: Any) -> Any:
        return batch


class TestErrors:
    def test_a_constructor_raises_what_it_raises(self) -> None:
        class Broken:
            def __init__(self) -> None:
                raise RuntimeError("no model")

            def __call__(self, batch: Any) -> Any:
                return batch

        with pytest.raises(RuntimeError, match="no model") as caught:
            skate.data.range(2).map_batches(Broken).count()
        assert "in the constructor of Broken" in str(caught.value)

    @local_only
    def test_actors_that_always_die_name_the_operator(self) -> None:
        import os
        import signal

        class Deadly:
            def __call__(self, batch: Any) -> Any:
                os.kill(os.getpid(), signal.SIGKILL)

        with pytest.raises(skate.exceptions.SkateError) as caught:
            skate.data.range(1).map_batches(Deadly).count()
        assert "MapBatches(Deadly)" in "".join(getattr(caught.value, "__notes__", [])) + str(
            caught.value
        )

    def test_a_batch_is_shown_by_its_first_row(self) -> None:
        def broken(batch: Any) -> Any:
            raise ValueError("bad")

        with pytest.raises(ValueError, match="bad") as caught:
            skate.data.range(3, override_num_blocks=1).map_batches(broken).count()
        assert "a batch of 3 rows with the columns ['id'], the first {'id': 0}" in str(
            caught.value
        )

    def test_flat_map_that_returns_one_value(self) -> None:
        with pytest.raises(TypeError, match=r"returned 0 for the row \{'id': 0\}"):
            skate.data.range(1).flat_map(lambda row: row["id"]).count()


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
