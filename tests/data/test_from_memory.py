"""Rows of the program itself: Python, NumPy, pandas, Arrow, Polars, DuckDB, torch."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import cloudpickle
import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import torch
import torch.utils.data

import skate
import skate.data
from skate import data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("inline")
@pytest.mark.parametrize(
    ("kind", "maker"),
    [
        (pd.DataFrame, "from_pandas"),
        (pa.table, "from_arrow"),
        (polars.DataFrame, "from_polars"),
    ],
)
def test_what_a_table_is_made_of_are_no_rows(kind: Any, maker: str) -> None:
    """Its items are columns, or their names."""
    with pytest.raises(TypeError, match=rf"rows {maker}\(\) takes"):
        skate.data.from_items(kind({"a": [1]}))


@pytest.mark.engines("inline")
class TestPolars:
    def test_there_and_back(self) -> None:
        frame = polars.DataFrame(
            {"n": [1, None], "s": ["a", "ä"], "l": [[1], []]}, schema_overrides={"n": polars.Int8}
        )
        rows = data.from_polars(frame)
        assert rows.schema().base_schema.types == [  # type: ignore[union-attr]
            pa.int8(), pa.large_string(), pa.large_list(pa.int64())
        ]  # fmt: skip
        assert rows.to_polars().equals(frame)

    def test_several_frames_and_lazy_ones(self) -> None:
        frame = polars.DataFrame({"n": [1, 2]})
        rows = data.from_polars([frame, frame.lazy().filter(polars.col("n") > 1)])
        assert [row["n"] for row in rows.take_all()] == [1, 2, 2]

    def test_categories_are_text(self) -> None:
        frame = polars.DataFrame({"c": ["a", "b", "a"]}).cast(polars.Categorical)
        assert data.from_polars(frame).take_all() == [{"c": "a"}, {"c": "b"}, {"c": "a"}]

    def test_tensors_are_lists(self) -> None:
        tensors = data.from_numpy(np.arange(8).reshape(2, 2, 2))
        assert tensors.to_polars()["data"].to_list() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]

    def test_a_frame_does_not_share_the_memory_of_a_dataset(self) -> None:
        kept = data.from_items([{"x": 1}, {"x": 2}]).materialize()
        kept.to_polars()["x"].to_numpy()
        assert kept.take_all() == [{"x": 1}, {"x": 2}]

    def test_what_is_no_frame(self) -> None:
        with pytest.raises(TypeError, match="DataFrame or LazyFrame"):
            data.from_polars([[1, 2]])


@pytest.mark.engines("inline")
class TestNumpy:
    def test_columns_by_name(self) -> None:
        x = np.arange(3)
        rows = data.from_numpy({"x": x, "y": np.ones((3, 2))})
        x[:] = 0
        assert [row["x"] for row in rows.take_all()] == [0, 1, 2]
        assert rows.take(1)[0]["y"].tolist() == [1, 1]

    def test_columns_of_other_lengths(self) -> None:
        with pytest.raises(ValueError, match="differ in length"):
            data.from_numpy({"x": np.arange(3), "y": np.arange(2)})


@pytest.mark.engines("inline")
class TestDuckDB:
    def test_in_and_out(self) -> None:
        relation = duckdb.sql("select range as n, 'a' || range as s from range(3)")
        rows = data.from_duckdb(relation)
        assert rows.take(1) == [{"n": 0, "s": "a0"}]
        total = duckdb.sql("select sum(n) from rows")
        assert total is not None
        assert total.fetchall() == [(3,)]

    def test_what_is_no_relation(self) -> None:
        with pytest.raises(TypeError, match="relation"):
            data.from_duckdb("select 1")


@pytest.mark.engines("local")
def test_nanoseconds():
    when = pd.Timestamp("2024-01-01 00:00:00.123456789")
    dataset = skate.data.from_pandas(pd.DataFrame({"t": [when]}))
    later = dataset.map(lambda row: {"t": row["t"] + pd.Timedelta(1, "ns")})
    assert later.take_all()[0]["t"] == when + pd.Timedelta(1, "ns")
    spans = skate.data.from_items([{"d": pd.Timedelta(1, "ns")}])
    assert spans.take_all()[0]["d"] == pd.Timedelta(1, "ns")


@pytest.mark.engines("inline")
class TestTimes:
    @pytest.mark.parametrize("values", [[pd.NaT, pd.Timestamp("2024")], [pd.NaT, None]])
    def test_the_missing_time_of_pandas_is_a_missing_value(self, values: list[object]) -> None:
        known = [None if value is not values[1] else value for value in values]
        rows = [{"t": value} for value in values]
        assert data.from_items(rows).take_all() == [{"t": value} for value in known]
        batches = data.range(1).map_batches(lambda batch: {"t": values})
        assert batches.take_all() == [{"t": value} for value in known]

    @pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps"])
    def test_units_that_arrow_does_not_have(self, unit: str) -> None:
        times = np.array(["1970-01-05", "NaT"], "datetime64[s]").astype(f"datetime64[{unit}]")
        batch = data.from_numpy({"t": times}).take_batch()["t"]
        np.testing.assert_array_equal(batch, times)

    @pytest.mark.parametrize("unit", ["W", "D", "h", "m", "s", "ns", "ps", "25s"])
    def test_units_of_durations(self, unit: str) -> None:
        spans = np.array([1000, 3000], f"timedelta64[{unit}]")
        np.testing.assert_array_equal(data.from_numpy({"d": spans}).take_batch()["d"], spans)

    def test_several_shapes_of_times(self) -> None:
        arrays = [np.zeros(n, "datetime64[h]") for n in (1, 2)]
        rows = data.from_items([{"t": array} for array in arrays]).take_all()
        for row, array in zip(rows, arrays, strict=True):
            np.testing.assert_array_equal(row["t"], array)


class TestBlocks:
    def test_are_exactly_as_many_as_asked_for(self) -> None:
        tables = [pa.table({"a": range(n)}) for n in (1, 100, 3)]
        for count in (1, 2, 7, 50):
            assert skate.data.from_arrow(tables, override_num_blocks=count).num_blocks() == count
            frames = [table.to_pandas() for table in tables]
            assert skate.data.from_pandas(frames, override_num_blocks=count).num_blocks() == count

    def test_some_are_empty_where_there_are_fewer_rows(self) -> None:
        table = pa.table({"a": [1, 2, 3]})
        for rows in (table, table.slice(0, 0)):
            made = skate.data.from_arrow(rows, override_num_blocks=5)
            assert (made.num_blocks(), made.take_all()) == (5, rows.to_pylist())
            assert made.map(lambda row: row).count() == rows.num_rows

    def test_one_without_rows_stays(self) -> None:
        rows = skate.data.from_arrow(pa.table({"a": pa.array([], pa.int32())}))
        assert (rows.num_blocks(), rows.count(), rows.columns()) == (1, 0, ["a"])
        assert rows.map(lambda row: row).take_all() == []
        assert rows.map_batches(lambda batch: batch).count() == 0

    def test_rows_without_columns_are_rows(self) -> None:
        rows = skate.data.from_pandas(pd.DataFrame({"a": [1, 2]}))
        assert rows.drop_columns(["a"]).take(1) == rows.select_columns([]).take(1) == []


def test_bfloat16_becomes_float32():
    (row,) = skate.data.from_items([{"t": torch.ones(2, dtype=torch.bfloat16)}]).take_all()
    assert row["t"].dtype == np.float32
    assert row["t"].tolist() == [1, 1]


def test_dictionaries_of_a_torch_dataset_are_rows():
    elements = [{"x": torch.full((2,), n), "y": n} for n in range(3)]
    rows = skate.data.from_torch(elements).take_all()
    assert [(row["x"].tolist(), row["y"]) for row in rows] == [
        ([0, 0], 0),
        ([1, 1], 1),
        ([2, 2], 2),
    ]


@pytest.mark.engines("inline")
class TestItems:
    def test_plain_values_under_item(self):
        numbers = skate.data.from_items([1, 2])
        assert numbers.take() == [1, 2]
        numbers.context.plain_rows = False
        assert numbers.take() == list(numbers.iter_rows()) == [{"item": 1}, {"item": 2}]

    def test_that_is_how_it_is_where_ray_is_imported(self, monkeypatch):
        numbers = skate.data.from_items([1])
        monkeypatch.setenv("SKATE_AS_RAY", "1")
        assert numbers.take() == [{"item": 1}]
        monkeypatch.delenv("SKATE_AS_RAY")
        assert numbers.take() == [1]


@pytest.mark.engines("inline")
class TestPlainValuesFromFunctions:
    """Without plain rows, as where Ray is imported, functions give dictionaries."""

    @pytest.fixture
    def rows(self, engine):
        rows = skate.data.range(2)
        rows.context.plain_rows = False
        return rows

    def test_they_are_refused(self, rows):
        for wrong in (
            rows.map(lambda row: row["id"]),
            rows.map(lambda row: np.ones(2)),
            rows.flat_map(lambda row: [row["id"]]),
            rows.map_batches(lambda batch: [1, 2]),
            rows.map_batches(lambda batch: batch["id"]),
            rows.groupby("id").map_groups(lambda group: [1]),
        ):
            with pytest.raises(ValueError, match=r"not allowed.*\{'item': value\}"):
                wrong.take_all()

    def test_all_kinds_of_dictionaries_are_rows_and_batches(self, rows):
        assert rows.map(lambda row: UserDict(n=row["id"])).take_all() == [{"n": 0}, {"n": 1}]
        assert rows.flat_map(lambda row: [UserDict(n=1)]).count() == 2
        assert rows.map_batches(lambda batch: UserDict(n=[5])).take(1) == [{"n": 5}]


@pytest.mark.engines("inline")
def test_small_frames_are_one_block():
    assert skate.data.from_pandas(pd.DataFrame({"a": [1, 2, 3]})).num_blocks() == 1
    large = pd.DataFrame({"a": [0.0] * 1_000_000})
    assert skate.data.from_pandas(large).num_blocks() > 1
    two = skate.data.from_arrow(pa.table({"a": [1, 2, 3]}), override_num_blocks=2)
    assert two.num_blocks() == 2


def test_a_torch_dataset_travels_once():
    class Numbers(torch.utils.data.Dataset):
        def __init__(self):
            self.ballast = np.zeros(1 << 20, np.uint8)

        def __len__(self):
            return 4000

        def __getitem__(self, n):
            return n

    dataset = skate.data.from_torch(Numbers())
    tasks = dataset._plan.source.read_tasks(None)
    assert sum(len(cloudpickle.dumps(task)) for task in tasks) < 1 << 20
    assert sum(dataset.take_all()) == sum(range(4000))


def ids(dataset):
    return [row["id"] for row in dataset.take_all()]


class TestSources:
    def test_range(self):
        dataset = skate.data.range(5)
        assert ids(dataset) == [0, 1, 2, 3, 4]
        assert dataset.count() == 5

    def test_range_tensor(self):
        batch = skate.data.range_tensor(3, shape=(2, 2)).take_batch(3)
        np.testing.assert_array_equal(batch["data"][2], [[2, 2], [2, 2]])

    def test_plain_values_come_back_plain(self):
        dataset = skate.data.from_items([1, 2, 3])
        assert dataset.take(2) == [1, 2]
        assert dataset.take_all() == [1, 2, 3]
        assert list(dataset.iter_rows()) == [1, 2, 3]
        assert dataset.take_batch(2)["item"].tolist() == [1, 2]

    def test_functions_see_plain_values_under_item(self):
        dataset = skate.data.from_items([1, 2]).map(lambda row: {"y": row["item"] + 1})
        assert dataset.take_all() == [{"y": 2}, {"y": 3}]

    def test_items_called_item_are_not_plain(self):
        assert skate.data.from_items([{"item": 1}]).take() == [{"item": 1}]

    def test_torch_tensors_as_items(self):
        dataset = skate.data.from_items([torch.full((2,), float(n)) for n in range(3)])
        assert dataset.take_batch(3)["item"].shape == (3, 2)

    def test_from_numpy(self):
        dataset = skate.data.from_numpy([np.ones((2, 3)), np.zeros((1, 3))])
        assert dataset.count() == 3
        assert dataset.take_batch(3)["data"].shape == (3, 3)

    def test_from_pandas_and_arrow(self):
        frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
        rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
        assert skate.data.from_pandas(frame).take_all() == rows
        assert skate.data.from_arrow(pa.Table.from_pandas(frame)).take_all() == rows

    def test_references(self):
        ref = skate.put(pa.table({"a": [1, 2]}))
        assert skate.data.from_arrow_refs([ref]).sum("a") == 3
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, pa.schema([("a", pa.int64())])) as writer:
            writer.write_table(pa.table({"a": [4, 5]}))
        packed = skate.put(stream.getvalue().to_pybytes())
        both = skate.data.from_arrow_refs([ref, packed])
        assert both.count() == 4
        assert both.sum("a") == 12
        assert skate.data.from_numpy_refs([skate.put(np.arange(3))]).count() == 3

    def test_from_torch(self):
        class Squares(torch.utils.data.Dataset):
            def __len__(self):
                return 6

            def __getitem__(self, number):
                return number**2

        assert skate.data.from_torch(Squares()).take_all() == [0, 1, 4, 9, 16, 25]
        assert skate.data.from_torch(Squares(), local_read=True).count() == 6

    def test_from_torch_iterable(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(range(3))

        class OfKnownLength(Stream):
            def __len__(self):
                return 3

        assert skate.data.from_torch(Stream()).take_all() == [0, 1, 2]
        assert skate.data.from_torch(OfKnownLength()).take_all() == [0, 1, 2]

    def test_an_empty_dataset(self):
        dataset = skate.data.from_items([])
        assert dataset.take_all() == []
        assert dataset.count() == 0
        assert dataset.schema() is None
        assert skate.data.range(0).sum("id") is None


def test_items_make_at_most_a_block_each():
    items = [{"a": n} for n in range(3)]
    assert skate.data.from_items(items, override_num_blocks=2).num_blocks() == 2
    assert skate.data.from_items(items, override_num_blocks=9).num_blocks() == 3
    assert skate.data.from_items([], override_num_blocks=9).count() == 0
