"""Relational runs: Polars and Arrow's kernels give the same rows, types and orders."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skate import data
from skate.data._arrow.tensors import column_of_array
from skate.data._plan import nodes as plan
from skate.data._relational.carried import UnlikeArrowError
from skate.data._relational.expressions import lowered
from skate.data._relational.frames import Frame, frame_of
from skate.data._relational.runs import Relational, with_runs
from skate.data._relational.scans import size_of
from skate.data.aggregate import Count, Max, Mean, Min, Std, Sum
from skate.data.expressions import Expr, col, lit
from tests.support import run_program

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]

TABLE = Frame.table
NAN = float("nan")
Query = Callable[[data.Dataset, data.Dataset], data.Dataset]


def left_table(rows: int = 400) -> pa.Table:
    random = np.random.default_rng(0)

    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([values[n] for n in random.integers(0, len(values), rows)], kind)

    days = [dt.date(2024, 2, 29), dt.date(1969, 12, 31), None]
    return pa.table(
        {
            "k": some([1, 2, 3, -4, None], pa.int64()),
            "s": some(["a", "b", "ä", "", None], pa.string()),
            "f": some([0.0, -0.0, 1.5, NAN, float("inf"), -2.0, None], pa.float64()),
            "g": some([0.5, NAN, None], pa.float32()),
            "i": some([2**31 - 1, -7, 0, None], pa.int32()),
            "u": some([0, 255, None], pa.uint8()),
            "b": some([True, False, None], pa.bool_()),
            "d": some([Decimal("1.25"), Decimal("-0.05"), None], pa.decimal128(15, 2)),
            "day": some(days, pa.date32()),
            "at": some([dt.datetime(2024, 1, 1, 12), None], pa.timestamp("s")),
            "c": some(["x", "y", None], pa.string()).dictionary_encode(),
            "l": some([[1, 2], [], None], pa.list_(pa.int64())),
            "t": column_of_array(np.arange(rows * 4, dtype=np.float32).reshape(rows, 2, 2)),
            "row": pa.array(range(rows)),
        }
    )


def right_table() -> pa.Table:
    return pa.table(
        {
            "k": pa.array([3, 1, 1, 9, None], pa.int32()),
            "s": ["a", "a", "b", "ä", None],
            "f": [1.0, 2.0, 3.0, NAN, None],
            "l": [[1], [2], None, [], [5]],
        }
    )


def dataset(table: pa.Table, engine: bool, blocks: int = 3) -> data.Dataset:
    made = data.from_arrow(table, override_num_blocks=blocks)
    made.context.engine_min_bytes = 0 if engine else 1 << 40
    return made


def comparable(table: pa.Table) -> list[list[Any]]:
    """The values; NaN, which is not equal to itself, as text."""
    return [[repr(value) for value in column.to_pylist()] for column in table.columns]


def both_ways(query: Query) -> tuple[list[pa.Table], list[pa.Table]]:
    """The blocks by Polars, and by Arrow's kernels."""
    found = []
    for engine in (True, False):
        pair = dataset(left_table(), engine), dataset(right_table(), engine, 2)
        found.append(list(query(*pair)._blocks()))
    return found[0], found[1]


SORTS: list[tuple[list[str], list[bool]]] = [
    (["k"], [False]), (["k"], [True]), (["f"], [False]), (["f"], [True]), (["g"], [True]),
    (["s", "f"], [False, True]), (["b", "d"], [True, False]), (["day", "at"], [True, True]),
    (["c"], [False]), (["c", "k"], [True, False]),
]  # fmt: skip

JOINS = [
    "inner", "left_outer", "right_outer", "full_outer",
    "left_semi", "right_semi", "left_anti", "right_anti",
]  # fmt: skip

GROUPS: list[list[str]] = [["k"], ["s"], ["d", "day"], ["b", "u"], ["f"], ["c"], ["at", "i"], []]

FUNCTIONS = [
    lambda on, nulls: Sum(on, ignore_nulls=nulls),
    lambda on, nulls: Mean(on, ignore_nulls=nulls),
    lambda on, nulls: Min(on, ignore_nulls=nulls),
    lambda on, nulls: Max(on, ignore_nulls=nulls),
    lambda on, nulls: Count(on, ignore_nulls=nulls),
]


class TestSameAsArrow:
    @pytest.mark.parametrize(("keys", "down"), SORTS)
    def test_sort(self, keys: list[str], down: list[bool]) -> None:
        ours, arrow = both_ways(lambda left, right: left.sort(keys, down))
        assert [block.schema for block in ours] == [block.schema for block in arrow]
        assert list(map(comparable, ours)) == list(map(comparable, arrow))

    @pytest.mark.parametrize("kind", JOINS)
    @pytest.mark.parametrize("on", [["k"], ["s"], ["k", "s"], ["f"]], ids="-".join)
    def test_join(self, kind: str, on: list[str]) -> None:
        ours, arrow = both_ways(
            lambda left, right: left.join(right, kind, 2, on, right_suffix="_r")
        )
        assert [block.schema for block in ours] == [block.schema for block in arrow]
        assert list(map(comparable, ours)) == list(map(comparable, arrow))

    @pytest.mark.parametrize("keys", GROUPS, ids="-".join)
    @pytest.mark.parametrize("nulls", [True, False])
    def test_groups(self, keys: list[str], nulls: bool) -> None:
        functions = [
            make(on, nulls) for make in FUNCTIONS for on in ("f", "g", "i", "u", "b", "d", "row")
        ]
        ours, arrow = both_ways(
            lambda left, right: left.groupby(keys or None).aggregate(*functions)
        )
        assert [block.schema for block in ours] == [block.schema for block in arrow]
        assert list(map(comparable, ours)) == list(map(comparable, arrow))

    @pytest.mark.parametrize("ddof", [0, 1])
    @pytest.mark.parametrize("on", ["f", "i", "row"])
    def test_standard_deviations(self, on: str, ddof: int) -> None:
        ours, arrow = both_ways(lambda left, right: left.groupby("k").aggregate(Std(on, ddof)))
        numbers, expected = ours[0].column(1).to_numpy(), arrow[0].column(1).to_numpy()
        np.testing.assert_allclose(numbers, expected)
        assert ours[0].column(1).null_count == arrow[0].column(1).null_count

    def test_a_whole_query(self) -> None:
        def query(left: data.Dataset, right: data.Dataset) -> data.Dataset:
            return (
                left.filter(expr=(col("i") < 5) | col("b"))
                .with_column("w", col("row") * 2 + col("i"))
                .join(right.select_columns(["k", "s"]), "left_outer", on="k", right_suffix="_r")
                .filter(expr=col("w") > 10)
                .groupby(["k", "s_r"])
                .aggregate(Sum("w"), Count(), Max("day"))
                .sort(["sum(w)", "k"], [True, False])
                .rename_columns({"sum(w)": "total"})
                .limit(5)
            )

        ours, arrow = both_ways(query)
        assert pa.concat_tables(ours).equals(pa.concat_tables(arrow))

    def test_rows_that_are_plain_values(self) -> None:
        values = data.from_items([3, 1, 2])
        values.context.engine_min_bytes = 0
        values.context.plain_rows = True
        assert values.sort("item").take_all() == [1, 2, 3]

    def test_columns_of_no_rows(self) -> None:
        pictures = data.from_items([{"k": 1, "i": 2, "t": np.ones(2)}])
        for engine in (True, False):
            nothing = dataset(left_table().select(["k", "row"]), engine).sort("k").limit(0)
            joined = nothing.join(pictures, "inner", 1, "k").select_columns(["row", "i"])
            assert joined.rename_columns({"i": "number"}).take_all() == []

    def test_columns_that_stay_behind_follow_their_rows(self) -> None:
        ours, arrow = both_ways(
            lambda left, right: (
                left.join(right, "full_outer", 1, "k", right_suffix="_r")
                .rename_columns({"t": "tensor"})
                .drop_columns(["l_r"])
                .sort("row", descending=True)
            )
        )
        assert "tensor" in ours[0].column_names
        assert list(map(comparable, ours)) == list(map(comparable, arrow))


EXPRESSIONS: list[Expr] = [
    col("i") + col("k"), col("u") + 1, col("u") * col("u"), col("i") - 1.5, col("f") * col("g"),
    col("f") / 2, col("d") * col("d"), 1 - col("d"), col("d") + col("k"), col("d") * 2.5,
    col("d").cast("float64"), col("i").cast("int64"), col("i").cast("float64"),
    col("f") > 1, col("f") == col("g"), col("f") != col("f"), col("f") <= col("i"),
    ~(col("f") < NAN), (col("b") & (col("k") > 1)) | ~col("b"), col("d") >= 1, col("d") < 0.5,
    col("d") == lit(Decimal("1.250")), col("day") < lit(dt.date(2000, 1, 1)), col("s") >= "a",
    col("k").is_in([1, 2]), col("s").is_in(["a", ""]), ~col("s").is_in(["a"]),
    col("day").is_in([dt.date(2024, 2, 29)]), col("f").is_null(), col("s").is_not_null(),
    col("s").str.starts_with("a"), col("s").str.contains("ä"), col("s").str.match("%"),
    col("s").str.match("_"), col("s").str.slice(0, 1), col("day").dt.year(), col("day").dt.day(),
]  # fmt: skip

ONLY_ARROW: list[Expr] = [
    col("i") / 2, col("k") // 2, col("k") % 2, col("d") / 2, col("f").cast("int64", safe=False),
    col("s").str.upper(), col("l").list.len(), col("s") + "x", col("at").dt.year(),
    col("s").str.match("a\\_"), col("k").is_in([None]), col("f").is_in([NAN]), col("f").round(1),
]  # fmt: skip


class TestExpressions:
    @pytest.mark.parametrize("expression", EXPRESSIONS, ids=repr)
    def test_values_and_types_are_arrows(self, expression: Expr) -> None:
        table = left_table()
        frame = frame_of(table)
        expected = pa.chunked_array(expression.evaluate(table).chunks)
        found = frame.lazy.select(x=lowered(expression, table.schema)).collect().to_arrow()["x"]
        assert comparable(pa.table([found.cast(expected.type)], ["x"])) == comparable(
            pa.table([expected], ["x"])
        )

    @pytest.mark.parametrize("expression", ONLY_ARROW, ids=repr)
    def test_what_polars_does_otherwise_is_left_to_arrow(self, expression: Expr) -> None:
        with pytest.raises(UnlikeArrowError):
            lowered(expression, left_table().schema)

    @pytest.mark.parametrize("expression", [*EXPRESSIONS, *ONLY_ARROW], ids=repr)
    def test_in_a_run(self, expression: Expr) -> None:
        ours, arrow = both_ways(
            lambda left, right: left.sort("row").with_column("x", expression).limit(50)
        )
        (one,), (other,) = ours, arrow
        assert one.schema == other.schema
        assert comparable(one) == comparable(other)

    def test_columns_are_computed_from_those_before(self) -> None:
        ours, arrow = both_ways(
            lambda left, right: (
                left.sort("row")
                .with_columns({"row": col("i"), "i": col("row"), "x": col("row") + 1})
                .limit(50)
            )
        )
        (one,), (other,) = ours, arrow
        assert one.schema == other.schema
        assert comparable(one) == comparable(other)


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        table = left_table().drop_columns(["c", "l", "t"])
        for number in range(3):
            pq.write_table(table.slice(number * 100, 100), tmp_path / f"{number}.parquet")
        return tmp_path

    def read(self, folder: Path, engine: bool) -> data.Dataset:
        made = data.read_parquet(str(folder))
        made.context.engine_min_bytes = 0 if engine else 1 << 40
        return made

    def test_filters_and_columns_reach_the_files(self, folder: Path) -> None:
        query = [
            self.read(folder, engine)
            .filter(expr=col("k") > 1)
            .select_columns(["row", "k", "d"])
            .sort("row", descending=True)
            for engine in (True, False)
        ]
        run = with_runs(query[0]._plan)
        assert isinstance(run, Relational)
        assert isinstance(run.children[0], plan.Read)
        ours, arrow = (list(each._blocks()) for each in query)
        assert list(map(comparable, ours)) == list(map(comparable, arrow))
        assert [block.schema for block in ours] == [block.schema for block in arrow]

    def test_more_than_fits_into_memory_streams(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Frame, "table", None)  # which would collect all rows
        rows = self.read(folder, True)
        rows.context.sort_memory_bytes = 1000
        rows.context.target_max_block_size = 1000
        blocks = list(rows.filter(expr=col("row") > 9).sort("row", descending=True)._blocks())
        assert len(blocks) > 1
        assert pa.concat_tables(blocks)["row"].to_pylist() == list(range(299, 9, -1))

    def test_of_joins_that_are_grouped_the_largest_input_need_not_fit(
        self,
        folder: Path,
        tmp_path_factory: pytest.TempPathFactory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        small = tmp_path_factory.mktemp("small")
        pq.write_table(pa.table({"k": [1, 2], "name": ["one", "two"]}), small / "a.parquet")
        rows = self.read(folder, True).join(data.read_parquet(str(small)), on="k")
        grouped = rows.groupby("name").sum("row").sort("name")
        rows.context.sort_memory_bytes = 1000
        fits = 6 * size_of(data.read_parquet(str(small))._plan)
        monkeypatch.setattr("skate.data._relational.runs.memory", lambda: fits)
        divided = []
        beside = data.read_parquet(str(small)).join(grouped, on="name")
        for query in (rows, grouped, beside):
            run = with_runs(query._plan)
            assert isinstance(run, Relational)
            divided.append(run._is_divided(run.children, rows.context))
        assert divided == [True, False, False]

    def test_more_than_fits_and_not_for_polars(self, folder: Path) -> None:
        rows = self.read(folder, True).filter(expr=col("row") % 2 == 0)
        rows.context.sort_memory_bytes = 1000
        found = [row["row"] for row in rows.sort("row", descending=True).take_all()]
        assert found == list(range(298, -1, -2))

    @pytest.mark.parametrize("nulls", [True, False])
    def test_numbers_about_all_rows(self, folder: Path, nulls: bool) -> None:
        columns = ("f", "g", "i", "u", "b", "d", "row")
        functions = [make(on, nulls) for make in FUNCTIONS for on in columns]
        found = []
        for engine in (True, False):
            rows = self.read(folder, engine).filter(expr=col("row") % 7 > 1)
            found.append(rows.sort("row").aggregate(*functions, Count()))
        assert {k: repr(v) for k, v in found[0].items()} == {
            k: repr(v) for k, v in found[1].items()
        }

    def test_numbers_about_no_rows(self, folder: Path) -> None:
        none = self.read(folder, True).filter(expr=col("k") > 100)
        found = none.aggregate(Sum("f"), Mean("i"), Min("day"), Std("f"), Count())
        assert list(found.values()) == [None, None, None, None, 0]
        assert "Aggregate" in none.stats()
        assert none.count() == 0

    def test_views_and_large_text(self, tmp_path: Path) -> None:
        table = pa.table({"s": pa.array(["b", None, "a"], pa.string_view()), "n": [1, 2, 3]})
        pq.write_table(table, tmp_path / "views.parquet")
        (block,) = self.read(tmp_path, True).sort("s")._blocks()
        assert block.schema.field("s").type == pa.string()
        assert block["s"].to_pylist() == ["a", "b", None]
        found = self.read(tmp_path, False).filter(expr=col("s") == "a").take_all()
        assert found == [{"s": "a", "n": 3}]

    def test_a_damaged_file_is_named(self, folder: Path) -> None:
        content = (folder / "1.parquet").read_bytes()
        (folder / "1.parquet").write_bytes(content[:100] + b"\xff" * 200 + content[300:])
        with pytest.raises(Exception, match=r"1\.parquet"):
            self.read(folder, True).sort("s").take_all()

    def test_files_that_differ_are_read_by_arrow(self, folder: Path) -> None:
        pq.write_table(pa.table({"row": [1000], "new": ["x"]}), folder / "3.parquet")
        rows = self.read(folder, True).sort("row", descending=True).take(1)
        assert rows[0]["row"] == 1000
        assert rows[0]["new"] == "x"

    def test_a_dataset_joined_with_itself(self, folder: Path) -> None:
        found = []
        for engine in (True, False):
            rows = self.read(folder, engine).select_columns(["row", "k"])
            sums = rows.groupby("k").aggregate(Sum("row"))
            found.append(rows.join(sums, on="k").sort("row").to_pandas())
        assert found[0].equals(found[1])


class TestChoice:
    def test_few_rows_do_not_import_polars(self) -> None:
        program = (
            "import sys; from skate import data; rows = data.range(1000).sort('id', True);"
            "assert rows.take(1) == [{'id': 999}]; print('polars' in sys.modules)"
        )
        done = run_program([sys.executable, "-c", program], check=True)
        assert done.stdout.strip() == "False"

    def test_many_rows_are_sorted_by_polars(self, monkeypatch: pytest.MonkeyPatch) -> None:
        frames: list[Frame] = []

        def noted(frame: Frame) -> pa.Table:
            frames.append(frame)
            return TABLE(frame)

        monkeypatch.setattr(Frame, "table", noted)
        rows = data.range(2_000_000)
        assert rows.sort("id", descending=True).take(1) == [{"id": 1_999_999}]
        assert len(frames) == 1

    def test_an_input_that_occurs_twice_is_computed_once(self) -> None:
        calls: list[int] = []

        def noted(batch: dict[str, Any]) -> dict[str, Any]:
            calls.append(len(batch["id"]))
            return batch

        rows = data.range(10).map_batches(noted)
        assert rows.join(rows, on="id").count() == 10
        assert sum(calls) == 10

    def test_more_than_fits_into_memory_goes_by_partitions(self) -> None:
        rows = data.range(20_000)
        rows.context.engine_min_bytes = 0
        rows.context.sort_memory_bytes = 10_000
        found = rows.join(rows, on="id").sort("id", descending=True).take(2)
        assert found == [{"id": 19_999}, {"id": 19_998}]


SORT_IN_LITTLE_MEMORY = """
import sys
import polars, pyarrow.parquet
import skate.data

def peak():  # of this program; what getrusage tells began with the process that started it
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10

skate.init(engine="inline")
settings = skate.data.DataContext.get_current()
settings.sort_memory_bytes, settings.target_max_block_size = 16 << 20, 4 << 20
before, rows, last = peak(), 0, -1.0
for block in skate.data.read_parquet(sys.argv[1]).sort("a").iter_batches(
    batch_size=None, batch_format="pyarrow"
):
    rows += block.num_rows
    assert block["a"][0].as_py() >= last
    last = block["a"][-1].as_py()
print(rows, peak() - before)
"""


def test_the_setting_bounds_the_memory_of_polars(tmp_path: Path) -> None:
    """In the process where it runs, after its import; a number in the environment goes first."""
    place, rows = tmp_path / "rows.parquet", 3_000_000
    random = np.random.default_rng(0)
    columns = {name: random.random(rows) for name in "abc"}
    pq.write_table(pa.table(columns), place, row_group_size=100_000)
    command = [sys.executable, "-c", SORT_IN_LITTLE_MEMORY, str(place)]

    def megabytes(**environment: str) -> int:
        done = run_program(command, check=True, env={**os.environ, **environment})
        count, more = map(int, done.stdout.split())
        assert count == rows
        return more

    without = megabytes(POLARS_OOC_MEMORY_BUDGET_MB="100000")
    assert any(megabytes() < 0.75 * without for _ in range(3))  # how much varies by a fifth
