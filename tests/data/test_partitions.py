"""Exchanges by partitions give what they give in one table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skate
import skate.data
from skate.data import Dataset, RandomSeedConfig
from skate.data import aggregate as agg
from skate.data._arrow.blocks import concat
from skate.data._execution.dividing import AtRandom, at_random, by_place
from skate.data._execution.joins import JOINS
from skate.data.expressions import col

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]

KINDS: dict[str, Callable[[int], Any]] = {
    "int": lambda n: n % 17 - 8,
    "float": lambda n: float("nan") if n % 11 == 0 else (n % 13) / 4 - 1,
    "text": lambda n: "abcdefghij"[n % 10] * (n % 3),
    "date": lambda n: date(2024, 1, 1) + timedelta(days=n % 19),
}


def blocks_of(kind: str, seed: int, prefix: str = "n") -> list[pa.Table]:
    """Tables of different lengths, some with keys that are missing, one with nothing else."""
    random = np.random.default_rng(seed)
    made, row = [], 0
    for size in (40, 1, 0, 75, 30, 54):
        keys = [KINDS[kind](int(n)) for n in random.integers(0, 1000, size)]
        if size == 75:
            keys = [None if random.random() < 0.2 else key for key in keys]
        column = pa.nulls(size) if size == 30 else pa.array(keys)
        numbers = np.arange(row, row + size)
        made.append(pa.table({"k": column, prefix: numbers, "g": numbers % 3}))
        row += size
    return made


def dataset(tables: list[pa.Table]) -> Dataset:
    return skate.data.from_arrow(tables)


def both_ways(make: Callable[[], Dataset]) -> tuple[pa.Table, pa.Table]:
    """What comes out in one table, and by partitions of 1500 bytes."""
    found = []
    for parts in (False, True):
        settings = skate.data.DataContext.get_current().copy()
        settings.partition_min_bytes = 0 if parts else 1 << 40
        settings.sort_memory_bytes = 3000 if parts else 1 << 40
        with skate.data.DataContext.current(settings):
            found.append(concat(skate.get(make().to_arrow_refs())))
    return found[0], found[1]


def rows(table: pa.Table) -> list[str]:
    """With NaN equal to itself."""
    return [repr(row) for row in table.to_pylist()]


@pytest.fixture(params=["int by arrow", "float by polars", "text by polars", "date by arrow"])
def kind(request: pytest.FixtureRequest, context: skate.data.DataContext) -> str:
    """The kind of the keys; parts are finished by Arrow or by Polars."""
    name, _, engine = str(request.param).split()
    context.engine_min_bytes = 0 if engine == "polars" else 1 << 40
    return name


class TestTheSameRows:
    @pytest.mark.parametrize(
        ("keys", "down"),
        [("k", False), ("k", True), (["k", "g"], [True, False]), (["g", "k"], False)],
    )
    def test_sort(self, kind: str, keys: Any, down: Any) -> None:
        one, other = both_ways(lambda: dataset(blocks_of(kind, 1)).sort(keys, descending=down))
        assert rows(one) == rows(other)
        assert one.schema == other.schema

    def test_groups(self, kind: str) -> None:
        functions = [agg.Count(), agg.Sum("n"), agg.Mean("n"), agg.Max("n")]
        one, other = both_ways(
            lambda: dataset(blocks_of(kind, 2)).groupby(["g", "k"]).aggregate(*functions)
        )
        assert rows(one) == rows(other)
        assert one.schema == other.schema

    @pytest.mark.parametrize("nulls", [True, False])
    def test_all_rows_are_one_group(self, nulls: bool) -> None:
        makers = (agg.Sum, agg.Mean, agg.Max, agg.Std, agg.Quantile, agg.Unique)
        functions = [make(on, ignore_nulls=nulls) for make in makers for on in ("k", "n")]
        one, other = both_ways(
            lambda: dataset(blocks_of("int", 2)).groupby(None).aggregate(agg.Count(), *functions)
        )
        assert len(rows(one)) == 1
        for name in one.column_names:
            expected, found = (table[name][0].as_py() for table in (one, other))
            assert found == pytest.approx(expected) if "std" in name else found == expected, name
        assert one.schema == other.schema

    def test_a_function_sees_all_rows(self) -> None:
        def counted(group: pa.Table) -> pa.Table:
            return pa.table({"rows": [group["n"].to_pylist()]})

        one, other = both_ways(
            lambda: (
                dataset(blocks_of("int", 2)).groupby(None).map_groups(counted, batch_format=None)
            )
        )
        assert rows(one) == rows(other)

    def test_groups_by_states(self) -> None:
        one, other = both_ways(
            lambda: dataset(blocks_of("int", 2)).groupby("k").aggregate(agg.Quantile("n"))
        )
        assert rows(one) == rows(other)

    def test_join(self, kind: str) -> None:
        for how in JOINS:

            def joined(how: str = how) -> Dataset:
                left, right = dataset(blocks_of(kind, 3)), dataset(blocks_of(kind, 4, "m")[:4])
                return left.join(right, how, 3, on="k", right_suffix="_r")

            one, other = both_ways(joined)
            assert sorted(rows(one)) == sorted(rows(other)), how
            assert one.schema == other.schema, how

    def test_a_whole_query(self) -> None:
        def query() -> Dataset:
            left, right = dataset(blocks_of("int", 5)), dataset(blocks_of("int", 6, "m"))
            joined = left.join(right, "inner", 2, on="k", right_suffix="_r")
            groups = joined.filter(expr=col("n") > 5).groupby("k").aggregate(agg.Sum("m"))
            return groups.with_column("x", col("sum(m)") * 2).sort("x", descending=True).limit(9)

        one, other = both_ways(query)
        assert rows(one) == rows(other)
        assert one.num_rows == 9


class TestOrders:
    def test_groups_reach_functions_whole_and_in_order(self, kind: str) -> None:
        def first(group: pa.Table) -> pa.Table:
            return pa.table({"k": group["k"][:1], "rows": [group["n"].to_pylist()]})

        one, other = both_ways(
            lambda: dataset(blocks_of(kind, 7)).groupby("k").map_groups(first, batch_format=None)
        )
        assert rows(one) == rows(other)

    @pytest.mark.parametrize("down", [False, True])
    def test_boundaries(self, context: skate.data.DataContext, down: bool) -> None:
        wanted = []
        for size in (1 << 40, 0):
            context.partition_min_bytes = size
            ordered = dataset(blocks_of("int", 8)).sort(
                ["k", "n"], descending=[down, not down], boundaries=[-8, 3, 3, 5, 99]
            )
            refs = ordered.to_arrow_refs()
            wanted.append([rows(table) for table in skate.get(refs)])
        assert wanted[0] == wanted[1]
        assert len(wanted[0]) == 6
        assert [] in wanted[0]

    @pytest.mark.parametrize("down", [False, True])
    def test_rows_that_are_equal_come_into_several_parts(
        self, context: skate.data.DataContext, down: bool
    ) -> None:
        context.partition_min_bytes, context.sort_memory_bytes = 0, 4000
        tables = [
            pa.table({"k": [n // 300] * 100, "n": range(n, n + 100)}) for n in range(0, 900, 100)
        ]
        blocks = skate.get(dataset(tables).sort("k", descending=down).to_arrow_refs())
        found = [row for block in blocks for row in block.to_pylist()]
        assert found == sorted(found, key=lambda row: -row["k"] if down else row["k"])
        assert len(blocks) > 5
        assert max(block.num_rows for block in blocks) < 300

    @pytest.mark.parametrize("blocks", [1, 3, 7, 250])
    def test_repartition(self, context: skate.data.DataContext, blocks: int) -> None:
        context.partition_min_bytes = 0
        refs = dataset(blocks_of("int", 9)).repartition(blocks).to_arrow_refs()
        tables = skate.get(refs)
        assert len(tables) == blocks
        lengths = [table.num_rows for table in tables]
        assert max(lengths) - min(lengths) <= 1
        found = [row for table in tables for row in table["n"].to_pylist()]
        assert found == list(range(200))
        assert {table.schema for table in tables} == {tables[0].schema}


class TestShuffle:
    @pytest.fixture(autouse=True)
    def by_partitions(self, context: skate.data.DataContext) -> None:
        context.partition_min_bytes, context.sort_memory_bytes = 0, 1000

    def shuffled(self, seed: int | None, blocks: int | None = None) -> list[pa.Table]:
        made = dataset(blocks_of("int", 10)).random_shuffle(seed=seed, num_blocks=blocks)
        tables: list[pa.Table] = skate.get(made.to_arrow_refs())
        return tables

    def numbers(self, seed: int | None) -> list[int]:
        return [n for table in self.shuffled(seed) for n in table["n"].to_pylist()]

    def test_a_seed_decides(self) -> None:
        assert self.numbers(1) == self.numbers(1) != self.numbers(2)
        assert self.numbers(None) != self.numbers(None)
        assert sorted(self.numbers(1)) == list(range(200))

    def test_a_config_gives_other_orders_that_a_second_run_repeats(self) -> None:
        def orders(seed: RandomSeedConfig) -> list[list[int]]:
            made = dataset(blocks_of("int", 10)).random_shuffle(seed=seed)
            return [[row["n"] for row in made.take_all()] for _ in range(2)]

        first, second = orders(RandomSeedConfig(3))
        assert sorted(first) == sorted(second) == list(range(200))
        assert first != second
        assert [first, second] == orders(RandomSeedConfig(3))
        fixed = orders(RandomSeedConfig(3, reseed_after_execution=False))
        assert fixed[0] == fixed[1]

    @pytest.mark.parametrize("blocks", [1, 4, 30])
    def test_blocks_are_even(self, blocks: int) -> None:
        lengths = [table.num_rows for table in self.shuffled(1, blocks)]
        assert len(lengths) == blocks
        assert max(lengths) - min(lengths) <= 1
        assert sum(lengths) == 200


class TestRows:
    @pytest.fixture(autouse=True)
    def by_partitions(self, context: skate.data.DataContext) -> None:
        context.partition_min_bytes, context.sort_memory_bytes = 0, 400

    def test_objects_move_with_their_keys(self) -> None:
        rows = skate.data.from_items([{"k": n % 5, "o": Fraction(n, 7)} for n in range(40)])
        found = [row["o"] for row in rows.sort("k").take_all()]
        assert found == sorted((Fraction(n, 7) for n in range(40)), key=lambda o: 7 * o % 5)

    def test_plain_values_stay_plain(self) -> None:
        rows = skate.data.from_items(list(range(30, 0, -1)))
        assert rows.sort("item").take_all() == list(range(1, 31))
        assert sorted(rows.random_shuffle(seed=1).take_all()) == list(range(1, 31))

    def test_a_key_that_some_blocks_lack(self) -> None:
        rows = skate.data.from_arrow([pa.table({"a": [3, 1]}), pa.table({"b": ["x"]})] * 20)
        found = [row["a"] for row in rows.sort("a").take_all()]
        assert found == [1] * 20 + [3] * 20 + [None] * 20


class TestWhereItRuns:
    def test_steps_above_run_where_parts_are_finished(
        self, context: skate.data.DataContext
    ) -> None:
        context.partition_min_bytes = 0
        made = dataset(blocks_of("int", 11)).sort("n").map_batches(lambda batch: batch)
        made = made.filter(expr=col("n") >= 0)
        assert made.materialize().count() == 200
        assert "Sort->MapBatches" in made.materialize().stats()

    def test_few_rows_begin_no_task(self) -> None:
        made = dataset(blocks_of("int", 12)).sort("n").materialize()
        assert "[divide]" not in made.stats()

    def test_large_sources_are_read_by_tasks(self, context: skate.data.DataContext) -> None:
        context.partition_min_bytes = 0
        read = skate.data.range(1000).sort("id", descending=True)
        assert read.take(2) == [{"id": 999}, {"id": 998}]
        stats = read.materialize().stats()
        assert "ReadRange" in stats
        assert "(driver)" not in stats

    def test_errors_are_those_of_the_operation(self, context: skate.data.DataContext) -> None:
        context.partition_min_bytes = 0
        unordered = skate.data.from_arrow(pa.table({"k": [[1], [2]], "n": [1, 2]}))
        with pytest.raises(TypeError, match="cannot order rows by these columns"):
            unordered.sort("k").materialize()


def test_places_of_parts_that_end_within_tables() -> None:
    made = by_place([3, 4, 1], [2, 2, 6, 8])
    found = [(each.parts, each.counts) for each in made]
    assert found == [(range(3), (2, 0, 1)), (range(2, 4), (3, 1)), (range(3, 4), (1,))]


def test_every_part_is_as_likely_for_every_row() -> None:
    """One of two rows is drawn from each of two tables, or both from one."""
    drawn = [at_random([2, 2], [2, 2], seed)[0].counts[0] for seed in range(600)]
    counts = np.bincount(drawn, minlength=3) / 600
    assert np.abs(counts - [1 / 6, 4 / 6, 1 / 6]).max() < 0.1


@pytest.fixture
def few_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skate.data._execution.dividing._MOST_DRAWN", 0)


@pytest.mark.parametrize("rows", [[100, 0, 7, 93], [1, 199]])
@pytest.mark.usefixtures("few_drawn")
def test_numbers_drawn_for_very_many_rows_add_up(rows: list[int]) -> None:
    sizes = [50, 0, 149, 1]
    made: list[AtRandom] = at_random(rows, sizes, 1)
    counts = np.array([each.counts for each in made])
    assert counts.min() >= 0
    assert counts.sum(axis=0).tolist() == sizes
    assert counts.sum(axis=1).tolist() == rows
