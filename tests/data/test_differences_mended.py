"""Behaviour that programs written for Ray rely on, each found by running one."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from skate.data import DataContext, ExecutionOptions, ExecutionResources
from skate.data._io import retries
from skate.data.datasource import (
    BlockBasedFileDatasink,
    Datasink,
    DummyOutputDatasink,
    RowBasedFileDatasink,
    WriteResult,
)
from skate.data.expressions import col
from skate.data.preprocessors import SimpleImputer

pytestmark = pytest.mark.usefixtures("engine")


def test_a_dataset_is_always_true() -> None:
    assert skate.data.range(0)
    assert bool(skate.data.from_items([1]))


class TestMapGroups:
    @pytest.mark.parametrize("given", ["rows", "pandas", "arrow"])
    def test_hands_frames_whose_length_is_that_of_the_group(self, given: str) -> None:
        table = pa.table({"k": [1, 1, 2], "v": [1.0, 2.0, 3.0]})
        rows = {
            "rows": lambda: skate.data.from_items(table.to_pylist()),
            "pandas": lambda: skate.data.from_pandas(table.to_pandas()),
            "arrow": lambda: skate.data.from_arrow(table),
        }[given]()

        def describe(group: pd.DataFrame) -> pd.DataFrame:
            assert isinstance(group, pd.DataFrame)
            return pd.DataFrame({"k": [group["k"].iloc[0]], "n": [len(group)]})

        counted = rows.groupby("k").map_groups(describe)
        assert counted.take_all() == [{"k": 1, "n": 2}, {"k": 2, "n": 1}]

    def test_other_formats_are_asked_for(self) -> None:
        rows = skate.data.from_items([{"k": 1}])
        kinds = {"numpy": "dict", "pyarrow": "Table", None: "Table", "pandas": "DataFrame"}
        for asked, kind in kinds.items():
            named = rows.groupby("k").map_groups(
                lambda group: {"kind": [type(group).__name__]}, batch_format=asked
            )
            assert named.take_all() == [{"kind": kind}]


class TestFileSinks:
    def test_open_complete_places_in_their_folder(self, tmp_path: Path) -> None:
        opened: list[str] = []

        class Lines(BlockBasedFileDatasink):
            def open_output_stream(self, path: str) -> Any:
                opened.append(path)
                return super().open_output_stream(path)

            def write_block_to_file(self, block: Any, file: Any) -> None:
                file.write(str(block.num_rows()).encode())

        sink = Lines(str(tmp_path / "first"), file_format="txt")
        sink.path = str(tmp_path / "second")
        skate.data.range(3, override_num_blocks=1).write_datasink(sink)
        (file,) = (tmp_path / "second").iterdir()
        assert opened == [str(file)]
        assert file.read_text() == "3"
        assert not (tmp_path / "first").exists()

    def test_refuse_a_place_elsewhere(self, tmp_path: Path) -> None:
        class Lost(RowBasedFileDatasink):
            def write_block(self, block: Any, block_index: int, ctx: Any) -> None:
                with self.open_output_stream("lost.txt") as file:
                    file.write(b"x")

        with pytest.raises(ValueError, match=r"lost\.txt.*outside"):
            skate.data.range(1).write_datasink(Lost(str(tmp_path)))
        assert not Path("lost.txt").exists()

    def test_can_be_given_another_file_system(self, tmp_path: Path) -> None:
        class Whole(BlockBasedFileDatasink):
            def write_block_to_file(self, block: Any, file: Any) -> None:
                file.write(b"x")

        sink = Whole("inside")
        sink.filesystem = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
        sink.path = "inside"
        skate.data.range(1).write_datasink(sink)
        assert len(list((tmp_path / "inside").iterdir())) == 1

    def test_say_what_writes_return(self) -> None:
        class Counting(Datasink[int]):
            result: WriteResult[int]

            def write(self, blocks: Any, ctx: Any) -> int:
                assert len(ctx.kwargs["write_uuid"]) == 32
                return sum(block.num_rows for block in blocks)

            def on_write_complete(self, write_result: WriteResult[int]) -> None:
                self.result = write_result

        sink = Counting()
        skate.data.range(4, override_num_blocks=2).write_datasink(sink)
        assert (sink.result.num_rows, sink.result.write_returns) == (4, [2, 2])

    def test_for_tests_count(self) -> None:
        sink = DummyOutputDatasink()
        skate.data.range(10).write_datasink(sink)
        assert (sink.num_ok, sink.num_failed) == (1, 0)
        assert skate.get(sink.data_sink.get_rows_written.remote()) == 10
        sink.enabled = False
        with pytest.raises(ValueError, match="disabled"):
            skate.data.range(10).write_datasink(sink)
        assert (sink.num_ok, sink.num_failed) == (1, 1)


class Busy(pafs.FileSystemHandler):  # type: ignore[misc]
    """A store of which every file fails a few times before it can be opened."""

    def __init__(self, failures: int, message: str) -> None:
        self.local = pafs.LocalFileSystem()
        self.left: dict[str, int] = {}
        self.failures = failures
        self.message = message
        self.lock = threading.Lock()

    def _may_fail(self, path: str) -> None:
        with self.lock:
            left = self.left.setdefault(path, self.failures)
            self.left[path] = left - 1
        if left > 0:
            raise OSError(f"{self.message} (while asking for {path})")

    def open_input_stream(self, path: str) -> Any:
        self._may_fail(path)
        return self.local.open_input_stream(path, compression=None)

    def open_input_file(self, path: str) -> Any:
        self._may_fail(path)
        return self.local.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self._may_fail(path)
        return self.local.open_output_stream(path, compression=None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)

    def get_type_name(self) -> str:
        return "busy"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Any) -> Any:
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self.local.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self.local.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self.local.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        self.local.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.local.delete_file(path)

    def move(self, source: str, target: str) -> None:
        self.local.move(source, target)

    def copy_file(self, source: str, target: str) -> None:
        self.local.copy_file(source, target)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError


@pytest.mark.engines("inline")
class TestStoresThatAreBusy:
    @pytest.fixture(autouse=True)
    def short_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)

    def busy(self, failures: int, message: str = "AWS Error SLOW_DOWN") -> Any:
        return pafs.PyFileSystem(Busy(failures, message))

    def test_are_asked_again(self, tmp_path: Path) -> None:
        rows = skate.data.range(5, override_num_blocks=1)
        rows.write_csv(str(tmp_path / "out"), filesystem=self.busy(3))
        for read in (skate.data.read_csv, skate.data.read_text, skate.data.read_binary_files):
            assert read(str(tmp_path / "out"), filesystem=self.busy(3)).count() > 0
        rows.write_parquet(str(tmp_path / "parquet"))
        parquet = skate.data.read_parquet(str(tmp_path / "parquet"), filesystem=self.busy(2))
        assert parquet.take_all() == [{"id": n} for n in range(5)]

    def test_are_given_up_at_last(self, tmp_path: Path) -> None:
        skate.data.range(5).write_csv(str(tmp_path / "out"))
        with pytest.raises(OSError, match="SLOW_DOWN"):
            skate.data.read_csv(str(tmp_path / "out"), filesystem=self.busy(10_000)).take_all()

    def test_by_errors_that_users_add(self, tmp_path: Path) -> None:
        skate.data.range(5).write_csv(str(tmp_path / "out"))
        odd = self.busy(2, "odd weather")
        with pytest.raises(OSError, match="odd weather"):
            skate.data.read_csv(str(tmp_path / "out"), filesystem=odd).take_all()
        context = DataContext.get_current().copy()
        assert "AWS Error SLOW_DOWN" in context.retried_io_errors
        context.retried_io_errors.append("odd weather")
        with DataContext.current(context):
            rows = skate.data.read_csv(
                str(tmp_path / "out"), filesystem=self.busy(2, "odd weather")
            )
            assert rows.count() == 5


class TestReadParquet:
    @pytest.fixture
    def files(self, tmp_path: Path) -> Path:
        for number in range(3):
            (tmp_path / f"d{number}").mkdir()
            table = pa.table({"a": [number], "b": [str(number)]})
            pq.write_table(table, tmp_path / f"d{number}" / "f.parquet")
        return tmp_path

    def test_columns_and_paths(self, files: Path) -> None:
        rows = skate.data.read_parquet(str(files), columns=["a"], include_paths=True)
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

    def test_calculating_with_decimals(self) -> None:
        rows = skate.data.from_arrow(pa.table({"d": [Decimal("1.25"), Decimal("3.50")]}))
        for expr, wanted in (
            (col("d") + 1, [Decimal("2.25"), Decimal("4.50")]),
            (col("d") * 2.0, [2.5, 7.0]),
            (col("d") + col("d"), [Decimal("2.50"), Decimal("7.00")]),
            (col("d") - Decimal("0.25"), [Decimal("1.00"), Decimal("3.25")]),
        ):
            assert [row["x"] for row in rows.with_column("x", expr).take_all()] == wanted


class TestViewsOfArrow:
    TABLE = pa.table(
        {
            "s": pa.array(["b", "a", None], pa.string_view()),
            "b": pa.array([b"b", b"a", None], pa.binary_view()),
            "l": pa.array([[1, 2], None, [3]], pa.list_view(pa.int64())),
            "ll": pa.array([["x"], [], None], pa.large_list_view(pa.string_view())),
            "st": pa.array([{"x": "b"}, {"x": "a"}, None], pa.struct([("x", pa.string_view())])),
            "ls": pa.array([["x"], ["y"], []], pa.list_(pa.string_view())),
            "m": pa.array([[("k", "v")], [], None], pa.map_(pa.string_view(), pa.string_view())),
            "d": pa.DictionaryArray.from_arrays(
                pa.array([0, 1, None]), pa.array(["b", "a"], pa.string_view())
            ),
            "n": [1, 2, 3],
        }
    )
    PLAIN: ClassVar = {
        "s": pa.string(), "b": pa.binary(), "l": pa.list_(pa.int64()),
        "ll": pa.large_list(pa.string()), "st": pa.struct([("x", pa.string())]),
        "ls": pa.list_(pa.string()), "m": pa.map_(pa.string(), pa.string()),
        "d": pa.string(), "n": pa.int64(),
    }  # fmt: skip

    @pytest.mark.parametrize("how", ["arrow", "slice", "parquet", "filtered", "map"])
    def test_are_read_as_plain_types(self, tmp_path: Path, how: str) -> None:
        table = self.TABLE
        if how in ("parquet", "filtered"):
            table = table.drop_columns(["d"])  # which Arrow does not write
            pq.write_table(table, tmp_path / "a.parquet")
            rows = skate.data.read_parquet(str(tmp_path))
            rows = rows.filter(expr="n < 9") if how == "filtered" else rows
        elif how == "map":
            rows = skate.data.range(1).map_batches(lambda _: table, batch_format="pyarrow")
        else:
            rows = skate.data.from_arrow(pa.concat_tables([table, table]).slice(3))
            if how == "slice":
                rows = skate.data.from_arrow(table.slice(1, 2))
                table = table.slice(1, 2)
        assert rows.take_all() == table.to_pylist()
        schema = rows.schema()
        assert schema is not None
        found = dict(zip(schema.names, schema.types, strict=True))
        assert found == {name: self.PLAIN[name] for name in table.column_names}

    def test_of_which_every_kernel_works(self) -> None:
        rows = skate.data.from_arrow(self.TABLE)
        assert [row["n"] for row in rows.sort("s").take_all()] == [2, 1, 3]
        assert rows.groupby("s").count().count() == 3
        assert rows.filter(expr="s == 'a'").count() == 1
        assert set(rows.unique("s")) == {"a", "b", None}


class TestKnownColumns:
    def test_missing_ones_are_an_error_at_once(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
        for rows in (
            skate.data.from_items([{"a": 1}]),
            skate.data.range(3).rename_columns({"id": "a"}),
            skate.data.read_parquet(str(tmp_path)),
        ):
            for use in (rows.drop_columns, rows.groupby):
                with pytest.raises(ValueError, match=r"'missing'.*'a'"):
                    use(["missing"])

    def test_what_only_a_run_can_tell_comes_later(self) -> None:
        rows = skate.data.range(3).map(lambda row: {"b": row["id"]})
        later = rows.drop_columns(["missing"])
        with pytest.raises(ValueError, match="missing"):
            later.take_all()


@skate.remote
def rows_of_part(part: Any) -> int:
    return sum(len(batch["id"]) for batch in part.iter_batches(batch_size=1))


@skate.remote
class Consumer:
    def __init__(self, part: Any) -> None:
        self.batches = iter(part.iter_batches(batch_size=1))

    def next(self) -> int:
        return int(next(self.batches)["id"][0])


@pytest.mark.engines("local")
class TestStreamingSplit:
    def test_a_second_reader_of_a_part_is_an_error(self) -> None:
        parts = skate.data.range(100).streaming_split(2, equal=True)
        first, second = (Consumer.options(num_cpus=0).remote(part) for part in parts)
        skate.get([first.next.remote(), second.next.remote()])
        intruder = Consumer.options(num_cpus=0).remote(parts[0])
        with pytest.raises(ValueError, match="part 0 of a split in 2 is read by two"):
            skate.get(intruder.next.remote(), timeout=60)
        assert skate.get(first.next.remote(), timeout=60) >= 0

    def test_tasks_after_each_other_read_an_epoch_each(self) -> None:
        parts = skate.data.range(10).streaming_split(2, equal=True)
        for _ in range(3):
            counts = skate.get([rows_of_part.remote(part) for part in parts], timeout=60)
            assert counts == [5, 5]

    @pytest.mark.parametrize("blocks", [1, 2, 8])
    def test_nobody_starves_beside_a_fast_reader(self, blocks: int) -> None:
        rows = skate.data.range(64, override_num_blocks=blocks).materialize()
        slow, fast = rows.streaming_split(2, equal=False)
        reader = Consumer.options(num_cpus=0).remote(slow)
        begun = reader.next.remote()
        count = skate.get(rows_of_part.remote(fast), timeout=60)
        assert skate.get(begun, timeout=60) >= 0
        assert 1 <= count < 64


class TestBlocksInMemory:
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

    def test_stats_say_what_ran(self) -> None:
        for rows, name in (
            (skate.data.from_items([1, 2]), "FromItems"),
            (skate.data.from_arrow(pa.table({"a": [1]})), "FromArrow"),
            (skate.data.range(5).materialize(), "ReadRange"),
        ):
            rows.take(1)
            assert f"Operator 1 {name}: 1 blocks" in rows.stats()
            assert "rows in" in rows.stats()

    def test_rows_without_columns_are_rows(self) -> None:
        rows = skate.data.from_pandas(pd.DataFrame({"a": [1, 2]}))
        assert rows.drop_columns(["a"]).take(1) == rows.select_columns([]).take(1) == [{}]


def test_amounts_of_resources() -> None:
    none = ExecutionResources()
    assert (none.cpu, none.gpu, none.object_store_memory, none.memory) == (0, 0, 0, 0)
    assert none.is_zero()
    assert none == ExecutionResources.zero()
    limits = ExecutionResources.for_limits(cpu=2)
    assert (limits.cpu, limits.gpu, limits.memory) == (2, float("inf"), float("inf"))
    options = ExecutionOptions()
    assert options.resource_limits == ExecutionResources.for_limits()
    options.resource_limits = ExecutionResources(cpu=1)
    assert options.resource_limits == ExecutionResources.for_limits(cpu=1)
    assert limits.copy(gpu=1).gpu == 1


class TestSimpleImputer:
    def test_adds_a_column_that_is_absent(self) -> None:
        rows = skate.data.from_items([{"b": 1}, {"b": 2}])
        filled = SimpleImputer(["a"], "constant", fill_value=7).transform(rows)
        assert filled.take_all() == [{"b": 1, "a": 7}, {"b": 2, "a": 7}]

    def test_that_was_there_when_it_learnt(self) -> None:
        learnt = SimpleImputer(["a"], "mean").fit(skate.data.from_items([{"a": 1.0}, {"a": 3.0}]))
        batch = learnt.transform_batch(pd.DataFrame({"b": [5]}))
        assert batch.to_dict("list") == {"b": [5], "a": [2.0]}
        assert np.dtype(batch["a"].dtype).kind == "f"
