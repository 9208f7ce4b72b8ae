"""Parquet: what is read of it and what is not, tensors, hashes of rows."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import torch

import skate
import skate.data
from skate.data import DataContext
from skate.data._io import paths
from skate.data.expressions import col
from skate.data.sources import footers
from skate.data.sources.parquet import ParquetSource

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def opened(monkeypatch):
    """The files that are opened."""
    found = []

    class Watched(pa.fs.FSSpecHandler):
        def open_input_file(self, path):
            found.append(path)
            return super().open_input_file(path)

    import fsspec

    files = pa.fs.PyFileSystem(Watched(fsspec.filesystem("file")))
    monkeypatch.setattr(paths, "resolve", lambda path, filesystem=None: (files, str(path)))
    return found


@pytest.fixture
def small_blocks():
    """Blocks of a few thousand bytes, so that small files are large ones."""
    context = DataContext.get_current().copy()
    context.target_max_block_size = 2000
    with DataContext.current(context):
        yield


@pytest.mark.usefixtures("small_blocks")
def test_small_files_of_large_rows_make_several_blocks(tmp_path):
    """The same number again and again takes next to nothing in a file."""
    skate.data.range_tensor(100, shape=(100,)).repartition(1).write_parquet(tmp_path)
    blocks = skate.data.read_parquet(tmp_path).materialize()
    assert blocks.num_blocks() == 34
    assert [row["data"][0] for row in blocks.take_all()] == list(range(100))
    chosen = skate.data.read_parquet(tmp_path, override_num_blocks=50)
    assert chosen.materialize().num_blocks() == 50


@pytest.mark.engines("local")
def test_a_single_file_in_several_blocks(tmp_path):
    skate.data.range(10, override_num_blocks=1).write_parquet(tmp_path)
    dataset = skate.data.read_parquet(tmp_path, override_num_blocks=3)
    assert dataset._block_num_rows() == [3, 3, 4]
    assert dataset._plan.initial_num_blocks() == 3
    sizes = dataset.map_batches(lambda batch: {"n": [len(batch["id"])]}, batch_size=None)
    assert [row["n"] for row in sizes.take_all()] == [3, 3, 4]


class TestReadParquet:
    @pytest.fixture
    def files(self, tmp_path: Path) -> Path:
        for number in range(3):
            (tmp_path / f"d{number}").mkdir()
            table = pa.table({"a": [number], "b": [str(number)]})
            pq.write_table(table, tmp_path / f"d{number}" / "f.parquet")
        return tmp_path

    def test_columns_and_paths(self, files: Path) -> None:
        rows = skate.data.read_parquet(str(files), columns="a", include_paths=True)
        assert rows.columns() == ["a", "path"]
        found = {row["a"]: row["path"] for row in rows.take_all()}
        assert found == {n: str(files / f"d{n}" / "f.parquet") for n in range(3)}

    @pytest.mark.parametrize("columns", [None, ["a"], ["a", "path"], ["path"]])
    def test_paths_of_files_that_have_such_a_column(
        self, tmp_path: Path, columns: list[str] | None
    ) -> None:
        file = tmp_path / "f.parquet"
        pq.write_table(pa.table({"path": ["mine"], "a": [1], "b": [2]}), file)
        rows = skate.data.read_parquet(str(file), columns=columns, include_paths=True)
        (row,) = rows.take_all()
        assert row["path"] == str(file)
        assert set(row) == {"path", *(columns or ["a", "b"])}
        assert set(rows.columns()) == set(row)

    def test_skipped_paths(self, files: Path) -> None:
        skipped = [str(files / "d0"), str(files / "d1" / "f.parquet"), str(files / "none")]
        rows = skate.data.read_parquet(str(files), skip_paths=skipped)
        assert [row["a"] for row in rows.take_all()] == [2]
        named = [str(files / "d2"), str(files / "missing.parquet")]
        rows = skate.data.read_parquet(named, skip_paths=str(files / "missing.parquet"))
        assert rows.count() == 1

    @pytest.mark.parametrize(
        "expr", ["d > 2", "d >= 3.5", "d * 2 > 3 and i == 2", "d > f and i > 1"]
    )
    def test_filters_by_decimals(self, tmp_path: Path, expr: str) -> None:
        numbers = pa.array([Decimal("1.25"), Decimal("3.50"), None])
        table = pa.table({"d": numbers, "i": [1, 2, 3], "f": [0.5, 1.5, 2.5]})
        pq.write_table(table, tmp_path / "a.parquet")
        for rows in (skate.data.from_arrow(table), skate.data.read_parquet(str(tmp_path))):
            assert [row["i"] for row in rows.filter(expr=expr).take_all()] == [2]


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3)], ids=["fixed", "ragged"])
def test_tensors_that_are_missing_survive_parquet(sizes, tmp_path):
    first, last = (np.arange(size * 2.0).reshape(size, 2) for size in sizes)
    skate.data.from_items([{"t": first}, {"t": None}, {"t": last}]).write_parquet(tmp_path)
    rows = [row["t"] for row in skate.data.read_parquet(tmp_path).take_all()]
    assert rows[1] is None
    np.testing.assert_array_equal(rows[0], first)
    np.testing.assert_array_equal(rows[2], last)


@pytest.mark.engines("inline")
class TestMadeColumns:
    def test_hashes_of_rows(self, tmp_path):
        skate.data.range(6, override_num_blocks=2).write_parquet(tmp_path)
        dataset = skate.data.read_parquet(tmp_path, include_row_hash=True)
        assert dataset.schema().names == ["id", "row_hash"]
        first, second = dataset.take_all(), dataset.take_all()
        assert first == second
        assert len({row["row_hash"] for row in first}) == 6
        chosen = skate.data.read_parquet(tmp_path, columns=["id"], include_row_hash=True)
        assert chosen.filter(expr="id == 4").take_all() == [first[4]]
        assert dataset.select_columns(["id"]).take(1) == [{"id": 0}]

    def test_tensors_of_bytes(self, tmp_path):
        arrays = np.arange(12).reshape(3, 2, 2)
        frame = pd.DataFrame({"n": range(3), "t": [array.tobytes() for array in arrays]})
        skate.data.from_pandas(frame).write_parquet(tmp_path)
        kinds = {"t": (np.int64, (2, 2))}
        dataset = skate.data.read_parquet(tmp_path, tensor_column_schema=kinds)
        assert dataset.schema().types[1].shape == [2, 2]
        np.testing.assert_array_equal(dataset.take_batch()["t"], arrays)


def test_tensors_survive_parquet(tmp_path):
    skate.data.from_items(
        [{"fixed": torch.full((2, 2), n), "ragged": np.ones((n + 1, 2))} for n in range(3)]
    ).write_parquet(tmp_path)
    back = skate.data.read_parquet(tmp_path)
    assert str(back.schema()).splitlines()[2:] == [
        "fixed   numpy.ndarray(shape=(2, 2), dtype=int64)",
        "ragged  numpy.ndarray(ndim=2, dtype=float64)",
    ]
    assert [row["ragged"].shape for row in back.take_all()] == [(1, 2), (2, 2), (3, 2)]
    assert back.take_all()[2]["fixed"].tolist() == [[2, 2], [2, 2]]


def test_plain_values_survive_parquet(tmp_path):
    skate.data.from_items(["a", "b"]).write_parquet(tmp_path)
    assert skate.data.read_parquet(tmp_path).take_all() == ["a", "b"]


class TestPushedIntoTheRead:
    @pytest.fixture
    def path(self, tmp_path):
        table = pa.table({"a": range(1000), "b": range(1000), "c": ["x"] * 1000})
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
        return tmp_path / "t.parquet"

    def test_columns_and_filters_are_pushed_into_the_read(self, path, capsys):
        dataset = skate.data.read_parquet(path).filter(expr=col("a") >= 998).select_columns("b")
        assert dataset.take_all() == [{"b": 998}, {"b": 999}]
        selected = skate.data.read_parquet(path).select_columns(["c"])
        selected.explain()
        optimised = capsys.readouterr().out.split("Optimised plan --------")[1]
        assert "SelectColumns" not in optimised
        assert selected.columns() == ["c"]

    def test_count_and_schema_need_no_rows(self, path):
        dataset = skate.data.read_parquet(path)
        assert dataset.count() == 1000
        assert dataset.schema(fetch_if_missing=False).names == ["a", "b", "c"]

    def test_large_files_are_cut_at_row_groups(self, path):
        context = skate.data.DataContext.get_current()
        before = context.target_max_block_size
        context.target_max_block_size = 2000
        try:
            dataset = skate.data.read_parquet(path)
            blocks = list(dataset.iter_batches(batch_size=None))
            assert len(blocks) > 1
            assert dataset.sum("a") == sum(range(1000))
        finally:
            context.target_max_block_size = before

    def test_wrong_columns(self, path):
        with pytest.raises(KeyError, match=r"'d'.*\['a', 'b', 'c'\]"):
            skate.data.read_parquet(path, columns=["d"]).take_all()


class TestSchemasAndSizes:
    def test_files_that_differ_are_brought_together(self, tmp_path):
        pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"a": [2.5], "b": ["x"]}), tmp_path / "2.parquet")
        dataset = skate.data.read_parquet(str(tmp_path))
        assert dataset.columns() == ["a", "b"]
        assert dataset.take_all() == [{"a": 1.0, "b": None}, {"a": 2.5, "b": "x"}]
        assert dataset.select_columns(["b"]).take_all() == [{"b": None}, {"b": "x"}]

    def test_a_schema_may_be_given(self, tmp_path):
        pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
        wanted = pa.schema([("a", pa.float32()), ("b", pa.string())])
        dataset = skate.data.read_parquet(str(tmp_path), schema=wanted)
        assert dataset.schema().types == [pa.float32(), pa.string()]
        assert dataset.take_all() == [{"a": 1.0, "b": None}]

    def test_sizes_of_files_and_options_of_the_writer(self, tmp_path):
        skate.data.range(10, override_num_blocks=1).write_parquet(
            str(tmp_path),
            max_rows_per_file=4,
            arrow_parquet_args_fn=lambda: {"compression": "gzip"},
        )
        files = sorted(tmp_path.iterdir())
        assert [pq.read_metadata(file).num_rows for file in files] == [4, 4, 2]
        assert pq.read_metadata(files[0]).row_group(0).column(0).compression == "GZIP"

    def test_a_random_order_of_files(self, tmp_path):
        for number in range(8):
            pq.write_table(pa.table({"a": [number]}), tmp_path / f"{number}.parquet")

        def orders(**options):
            config = skate.data.FileShuffleConfig(seed=5, **options)
            dataset = skate.data.read_parquet(str(tmp_path), shuffle=config)
            return [[row["a"] for row in dataset.take_all()] for _ in range(2)]

        first, second = orders()
        assert sorted(first) == list(range(8))
        assert first != second
        assert orders() == [first, second]
        fixed = orders(reseed_after_execution=False)
        assert fixed[0] == fixed[1]


def write_numbers(folder, files=4, rows=10):
    for n in range(files):
        table = pa.table({"a": range(n * rows, n * rows + rows), "b": ["x"] * rows})
        pq.write_table(table, folder / f"{n}.parquet", row_group_size=5)


@pytest.mark.engines("inline")
class TestPushDown:
    def test_a_filter_reads_no_other_columns_and_row_groups(self, tmp_path, monkeypatch):
        write_numbers(tmp_path)
        dataset = skate.data.read_parquet(tmp_path).filter(expr=col("a") >= 38)
        read = []
        completed = ParquetSource.completed

        def watch(self, block, file):
            read.append((block.num_rows, block.column_names))
            return completed(self, block, file)

        monkeypatch.setattr(ParquetSource, "completed", watch)
        assert dataset.select_columns("b").take_all() == [{"b": "x"}] * 2
        assert [entry for entry in read if entry[0]] == [(2, ["b"])]

    def test_a_filter_of_pyarrow_on_what_is_not_wanted(self, tmp_path):
        write_numbers(tmp_path)
        wanted = pyarrow.dataset.field("a") >= 38
        (all_columns,) = {len(row) for row in skate.data.read_parquet(tmp_path).take_all()}
        found = skate.data.read_parquet(tmp_path, columns=["b"], filter=wanted)
        assert found.columns() == ["b"]
        assert (
            found.count() == skate.data.read_parquet(tmp_path).filter(expr=col("a") >= 38).count()
        )
        assert len(skate.data.read_parquet(tmp_path, filter=wanted).columns()) == all_columns
        changed = skate.data.read_parquet(
            tmp_path, columns=["b"], filter=wanted, include_row_hash=True,
            _block_udf=lambda table: table.rename_columns([n.upper() for n in table.column_names]),
        )  # fmt: skip
        assert changed.columns() == ["B", "ROW_HASH"]

    def test_a_filter_on_what_was_not_selected(self, tmp_path):
        write_numbers(tmp_path)
        for dataset in (
            skate.data.read_parquet(tmp_path),
            skate.data.read_csv("example://iris.csv"),
        ):
            name, other = dataset.columns()[:2]
            with pytest.raises(KeyError, match=f"no such column in the dataset: {other!r}"):
                dataset.select_columns([name]).filter(expr=col(other) > 5).take_all()
            with pytest.raises(KeyError, match="no such column in the dataset: 'zz'"):
                dataset.filter(expr=col("zz") > 5).take_all()

    def test_files_that_differ(self, tmp_path):
        pq.write_table(pa.table({"a": [1, 2], "d": pa.array(["x", "y"]).dictionary_encode()}),
                       tmp_path / "1.parquet")  # fmt: skip
        pq.write_table(pa.table({"a": [2.5, 3.5], "c": [1, 2]}), tmp_path / "2.parquet")
        found = skate.data.read_parquet(tmp_path).filter(expr=col("a") >= 2).take_all()
        assert found == [
            {"a": 2.0, "d": "y", "c": None},
            {"a": 2.5, "d": None, "c": 1},
            {"a": 3.5, "d": None, "c": 2},
        ]

    @pytest.mark.parametrize(
        "condition",
        [
            col("x") != 1,
            ~(col("x") <= 5),
            col("x").not_in([1.0]),
            (col("n") > 0) & ~(col("x") > 0),
        ],
        ids=str,
    )
    def test_statistics_say_nothing_of_nan(self, condition, tmp_path):
        table = pa.table({"x": [1.0, float("nan"), 1.0], "n": [1, 2, 3]})
        pq.write_table(table, tmp_path / "a.parquet")
        found = skate.data.read_parquet(tmp_path).filter(expr=condition).take_all()
        assert [row["n"] for row in found] == [2]

    @pytest.mark.parametrize("kind", [pa.float32(), pa.int8(), pa.float64()], ids=str)
    @pytest.mark.parametrize("listed", [[-0.0, 0.1], [0, 1], [0.1, 256]], ids=str)
    def test_members_of_another_type(self, kind, listed, tmp_path):
        numbers = pa.array([0.0, 0.0] if kind == pa.int8() else [0.1, 0.1, -0.0]).cast(kind)
        table = pa.table({"x": numbers})
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
        condition = col("x").is_in(listed)
        in_memory = skate.data.from_arrow(table).filter(expr=condition).take_all()
        assert skate.data.read_parquet(tmp_path).filter(expr=condition).take_all() == in_memory
        assert (0 in listed) == any(row["x"] == 0 for row in in_memory)

    def test_large_numbers_without_a_sign(self, tmp_path):
        numbers = pa.array([1, 2**64 - 1], pa.uint64())
        pq.write_table(pa.table({"x": numbers}), tmp_path / "a.parquet")
        found = skate.data.read_parquet(tmp_path).filter(expr=col("x").is_in([1, 2])).take_all()
        assert found == [{"x": 1}]

    @pytest.mark.parametrize("rows", [[1, 2], [None, 1]], ids=str)
    def test_nothing_is_less_than_nan(self, rows, tmp_path):
        pq.write_table(pa.table({"n": rows}), tmp_path / "a.parquet")
        read = skate.data.read_parquet(tmp_path)
        assert read.filter(expr=~(col("n") < float("nan"))).take_all() == [
            {"n": n} for n in rows if n is not None
        ]
        assert read.filter(expr=col("n") < float("nan")).take_all() == []

    def test_tensors_pass_a_filter(self, tmp_path):
        rows = [{"n": n, "t": np.full((2, 2), n), "r": np.ones(n + 1)} for n in range(3)]
        skate.data.from_items(rows).write_parquet(tmp_path)
        (row,) = skate.data.read_parquet(tmp_path).filter(expr=col("n") == 2).take_all()
        assert row["t"].tolist() == [[2, 2], [2, 2]]
        assert row["r"].tolist() == [1, 1, 1]

    def test_a_random_order_of_files_lasts_over_push_downs(self, tmp_path):
        write_numbers(tmp_path, files=8, rows=1)
        config = skate.data.FileShuffleConfig(seed=5)
        dataset = skate.data.read_parquet(tmp_path, shuffle=config).select_columns(["a"])
        first, second = ([row["a"] for row in dataset.take_all()] for _ in range(2))
        assert sorted(first) == sorted(second)
        assert first != second


@pytest.mark.engines("inline")
class TestFooters:
    def test_footers_are_read_once(self, tmp_path, opened):
        write_numbers(tmp_path)
        dataset = skate.data.read_parquet(tmp_path)
        assert dataset.count() == 40
        assert len(opened) == 4
        dataset.select_columns(["a"]).schema()
        dataset.filter(expr=col("a") > 100).schema()
        assert len(opened) == 4

    def test_files_of_a_disk_need_no_threads(self, tmp_path, monkeypatch):
        write_numbers(tmp_path)
        monkeypatch.setattr(footers, "_PATIENCE_SECONDS", 60)
        monkeypatch.setattr(footers, "ThreadPoolExecutor", None)
        assert skate.data.read_parquet(tmp_path).count() == 40

    def test_those_of_a_slow_one_are_read_at_the_same_time(self, tmp_path, monkeypatch):
        write_numbers(tmp_path, files=8)
        together = threading.Barrier(8)
        read = footers.Footers._opened

        def all_at_once(self, path):
            together.wait(timeout=60)
            return read(self, path)

        monkeypatch.setattr(footers, "_PATIENCE_SECONDS", -60)
        monkeypatch.setattr(footers.Footers, "_opened", all_at_once)
        assert skate.data.read_parquet(tmp_path).count() == 80

    def test_text_about_a_dataset_counts_no_rows(self, tmp_path, opened):
        write_numbers(tmp_path, files=3)
        dataset = skate.data.read_parquet(tmp_path)
        dataset._plan.source._footers.of([str(tmp_path / "0.parquet")])
        assert dataset._plan.source.known_count() is None
        assert dataset.count() == 30
        assert "shape: (30, 2)" in repr(dataset)


@pytest.mark.engines("inline")
class TestLargeFiles:
    @pytest.fixture
    def folder(self, tmp_path, small_blocks):
        for n in range(3):
            table = pa.table({"a": range(n * 1000, n * 1000 + 1000)})
            pq.write_table(table, tmp_path / f"{n}.parquet", row_group_size=100)
        return tmp_path

    def tasks(self, folder, parallelism=None, **options):
        return skate.data.read_parquet(folder, **options)._plan.source.read_tasks(parallelism)

    def test_they_keep_to_the_wanted_number_of_blocks(self, folder):
        assert len(self.tasks(folder)) > 6
        assert len(self.tasks(folder, 6)) == 6
        assert skate.data.read_parquet(folder, override_num_blocks=6).sum("a") == sum(range(3000))

    def test_their_order_is_random_if_wanted(self, folder):
        config = skate.data.FileShuffleConfig(seed=3, reseed_after_execution=False)
        rows = [row["a"] for row in skate.data.read_parquet(folder, shuffle=config).take_all()]
        assert rows != sorted(rows)
        assert sorted(rows) == list(range(3000))

    def test_a_large_row_group_is_read_piece_by_piece(self, tmp_path, small_blocks):
        rows = 200_000
        pq.write_table(pa.table({"a": range(rows)}), tmp_path / "x.parquet", row_group_size=rows)
        for dataset in (
            skate.data.read_parquet(tmp_path),
            skate.data.read_parquet(tmp_path).filter(expr=col("a") >= 0),
        ):
            (task,) = skate.data._plan.optimizer.optimise(dataset._plan).source.read_tasks(None)
            sizes = [block.num_rows for block in task.read()]
            assert len(sizes) > 1
            assert sum(sizes) == rows


@pytest.mark.engines("inline")
def test_dataset_kwargs(tmp_path):
    skate.data.range(3).write_parquet(tmp_path)
    rows = skate.data.read_parquet(tmp_path, dataset_kwargs={"memory_map": True})
    assert rows.count() == len(rows.take_all()) == 3
    with pytest.raises(ValueError, match=r"dataset_kwargs has \['partitioning'\]"):
        skate.data.read_parquet(tmp_path, dataset_kwargs={"partitioning": "hive"})
