"""Aggregations: what they read, what they make of values, and of which type."""

import math
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from skate.data import aggregate
from skate.data import aggregate as agg
from skate.data.block import AggType, Block, BlockAccessor, U

pytestmark = pytest.mark.usefixtures("engine")

NAN = float("nan")


class TestColumnsRead:
    @pytest.fixture
    def dataset(self, tmp_path):
        columns = {f"c{n}": np.arange(100) % (n + 2) for n in range(5)}
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        return skate.data.read_parquet(str(tmp_path))

    @pytest.fixture
    def seen(self, monkeypatch):
        """The columns of all blocks that were aggregated."""
        found = []
        add = agg.AggregateFnV2.add

        def spy(self, state, block):
            found.append(block.column_names)
            return add(self, state, block)

        monkeypatch.setattr(agg.AggregateFnV2, "add", spy)
        return found

    def test_one_number(self, dataset, seen):
        assert dataset.sum("c0") == 50
        assert sorted(dataset.unique("c1")) == [0, 1, 2]
        assert {tuple(names) for names in seen} == {("c0",), ("c1",)}
        assert dataset.stats()

    def test_groups(self, dataset, seen):
        found = dataset.groupby("c1").aggregate(agg.Quantile("c0")).take_all()
        assert len(found) == 3
        assert {tuple(names) for names in seen} == {("c1", "c0")}

    def test_rows_are_counted_without_a_column(self, dataset):
        assert dataset.aggregate(agg.Count()) == {"count()": 100}
        assert dataset.groupby(None).count().take_all() == [{"count()": 100}]

    def test_aggregations_of_users_see_all(self, dataset):
        class Width(agg.AggregateFnV2):
            def aggregate_block(self, block):
                return block.num_columns

            def combine(self, current_accumulator, new):
                return max(current_accumulator, new)

        assert dataset.aggregate(Width("width", on="c0")) == {"width": 5}

    def test_a_wrong_name_lists_the_columns(self, dataset):
        with pytest.raises(KeyError, match=r"'c9'.*'c0'"):
            dataset.aggregate(agg.Sum("c9"))


class TestSingleValues:
    def blocks(self, values):
        return skate.data.from_arrow([pa.table({"x": [value]}) for value in values])

    def test_dictionaries(self):
        values = [{"a": 1, "b": [1]}, {"a": 2, "b": None}, {"a": 1, "b": [1]}]
        dataset = skate.data.from_arrow([pa.table({"x": values[:2]}), pa.table({"x": values[2:]})])
        expected = [{"a": 1, "b": (1,)}, {"a": 2, "b": None}]
        assert dataset.unique("x") == values[:2]
        counts = dataset.aggregate(agg.ValueCounter("x"))["value_counter(x)"]
        assert counts == {"values": expected, "counts": [2, 1]}

    def test_nan_is_one_value(self):
        dataset = self.blocks([float("nan"), 1.0, float("nan"), 1.0])
        counts = dataset.aggregate(agg.ValueCounter("x"))["value_counter(x)"]
        assert counts["counts"] == [2, 2]
        assert len(dataset.unique("x")) == 2

    @pytest.mark.parametrize(
        ("function", "expected"),
        [
            (agg.AsList("x"), [3, 1, 3]),
            (agg.Unique("x"), [3, 1]),
            (agg.ApproximateTopK("x", 1), [{"x": 3, "count": 2}]),
            (agg.ApproximateQuantile("x", [0.5]), [3.0]),
            (agg.Quantile("x"), 3.0),
        ],
        ids=lambda value: getattr(value, "name", ""),
    )
    def test_twice_the_same(self, function, expected):
        dataset = self.blocks([3, 1, 3])
        for _ in range(2):
            assert dataset.aggregate(function) == {function.name: expected}


@pytest.mark.parametrize("also", [[], [agg.AsList("x")]], ids=["by kernels", "by states"])
@pytest.mark.parametrize("make", [agg.Count, agg.Sum, agg.Min, agg.Max, agg.AbsMax, agg.Mean])
def test_the_type_is_known_beforehand(make, also):
    table = pa.table({"x": pa.array([1, -2], pa.int32()), "k": pa.array([0, 0], pa.int8())})
    (block,) = skate.data.from_arrow(table).groupby("k").aggregate(make("x"), *also)._blocks()
    field = make("x").output_field(table.schema)
    assert block.schema.field(field.name).type == field.type
    assert block.schema.field("k").type == pa.int8()


@pytest.mark.engines("local")
def test_distinct_lists_are_lists():
    ds = skate.data.from_items([{"a": [[1], [2]]}, {"a": [[1], [2]]}, {"a": [[3]]}])
    assert sorted(ds.unique("a")) == [[[1], [2]], [[3]]]


class TestAggregations:
    def test_no_share_of_nothing_is_zero(self):
        missing = skate.data.from_items([{"a": None}] * 2)
        assert missing.aggregate(aggregate.ZeroPercentage("a")) == {"zero_pct(a)": None}
        all_of_them = aggregate.ZeroPercentage("a", ignore_nulls=False)
        assert missing.aggregate(all_of_them) == {"zero_pct(a)": 0.0}

    def test_values(self):
        rows = [{"a": 0}, {"a": 1}, {"a": None}, {"a": 1}]
        found = skate.data.from_items(rows).aggregate(
            aggregate.MissingValuePercentage("a"),
            aggregate.ZeroPercentage("a"),
            aggregate.ValueCounter("a"),
            aggregate.CountDistinct("a"),
            aggregate.AsList("a"),
            aggregate.ApproximateTopK("a", k=1),
            aggregate.ApproximateQuantile("a", quantiles=[0.0, 1.0]),
        )
        counts = found.pop("value_counter(a)")
        assert dict(zip(counts["values"], counts["counts"], strict=True)) == {0: 1, 1: 2, None: 1}
        assert found == {
            "missing_pct(a)": 25.0,
            "zero_pct(a)": pytest.approx(100 / 3),
            "count_distinct(a)": 2,
            "list(a)": [0, 1, None, 1],
            "approx_topk(a)": [{"a": 1, "count": 2}],
            "approx_quantile(a)": [0.0, 1.0],
        }

    def test_elements_of_lists(self):
        dataset = skate.data.from_items([{"l": [1, 2]}, {"l": [2]}, {"l": [2]}])
        whole, elements = aggregate.Unique("l"), aggregate.Unique("l", encode_lists=True)
        assert sorted(dataset.aggregate(whole)["unique(l)"]) == [[1, 2], [2]]
        assert sorted(dataset.aggregate(elements)["unique(l)"]) == [1, 2]

    def test_decimals(self):
        ds = skate.data.from_items([{"a": Decimal(text)} for text in ("0.00", "1.50", "2.25")])
        found = ds.aggregate(aggregate.Quantile("a", q=0.25), aggregate.ZeroPercentage("a"))
        assert found == {"quantile(a)": 0.75, "zero_pct(a)": pytest.approx(100 / 3)}

    def test_one_of_ones_own(self):
        class Product(aggregate.AggregateFnV2):
            def __init__(self, on):
                super().__init__(f"product({on})", lambda: 1, on=on, ignore_nulls=True)

            def aggregate_block(self, block: Block) -> AggType:
                column: Any = BlockAccessor.for_block(block).to_numpy(self.on)
                return cast("AggType", math.prod(column.tolist()))

            def combine(self, current_accumulator: AggType, new: AggType) -> AggType:
                return cast("AggType", cast("int", current_accumulator) * cast("int", new))

            def finalize(self, accumulator: AggType) -> U | None:
                return cast("U", accumulator)

        dataset = skate.data.from_items([{"k": n % 2, "v": n} for n in range(1, 5)])
        assert dataset.aggregate(Product("v")) == {"product(v)": 24}
        rows = dataset.groupby("k").aggregate(Product("v")).take_all()
        assert {row["k"]: row["product(v)"] for row in rows} == {0: 8, 1: 3}

    def test_one_with_types_as_in_the_guides_of_ray(self):
        class Total(aggregate.AggregateFnV2[int, int]):
            def __init__(self, on):
                super().__init__(f"total({on})", lambda: 0, on=on, ignore_nulls=True)

            def aggregate_block(self, block):
                return BlockAccessor.for_block(block).sum(
                    self._target_col_name, self._ignore_nulls
                )

            def combine(self, current_accumulator, new):
                return current_accumulator + new

        assert issubclass(Total, aggregate.AggregateFnV2)
        assert skate.data.range(5, override_num_blocks=2).aggregate(Total("id")) == {
            "total(id)": 10
        }

    def test_names_that_occur_twice_get_a_number(self):
        found = skate.data.range(3).aggregate(aggregate.Sum("id"), aggregate.Sum("id"))
        assert found == {"sum(id)": 3, "sum(id)_2": 3}

    def test_the_deviation_of_nothing_is_none_and_of_one_value_nan(self):
        rows = [{"k": 0, "v": 1.0}, {"k": 1, "v": None}]
        found = skate.data.from_items(rows).groupby("k").std("v").take_all()
        assert math.isnan(found[0]["std(v)"])
        assert found[1]["std(v)"] is None

    def test_mistakes(self):
        with pytest.raises(ValueError, match=r"such as Max\('x'\)"):
            skate.data.range(3).aggregate(aggregate.Max())
        with pytest.raises(ValueError, match="names of columns"):
            skate.data.range(3).groupby(lambda row: row)
        with pytest.raises(ValueError, match=r"'x'; the columns are \['id'\]"):
            skate.data.range(3).groupby("x").count().take_all()


@pytest.mark.engines("inline")
class TestNumbers:
    @pytest.mark.parametrize("kind", ["Sum", "Mean", "Std"])
    def test_nan_is_missing_unless_nulls_count(self, kind):
        ds = skate.data.from_arrow(pa.table({"k": [1, 1, 1], "a": [1.0, NAN, 3.0]}))
        function = getattr(aggregate, kind)
        for ignore, expected in ((True, None), (False, NAN)):
            one = function("a", ignore_nulls=ignore, alias_name="x")
            (row,) = ds.groupby("k").aggregate(one).take_all()
            assert row["x"] == pytest.approx(expected, nan_ok=True)
            assert ds.aggregate(one)["x"] == pytest.approx(expected, nan_ok=True)

    @pytest.mark.parametrize(("kind", "expected"), [("Min", 1.0), ("Max", 3.0), ("AbsMax", 3.0)])
    def test_nan_is_no_extreme(self, kind, expected):
        tables = [pa.table({"a": [NAN]}), pa.table({"a": [1.0, 3.0]}), pa.table({"a": [NAN]})]
        ds = skate.data.from_arrow(tables)
        assert ds.aggregate(getattr(aggregate, kind)("a", alias_name="x")) == {"x": expected}

    def test_quantiles_leave_nan_out(self):
        ds = skate.data.from_arrow(pa.table({"a": [1.0, NAN, 3.0]}))
        assert ds.aggregate(aggregate.Quantile("a")) == {"quantile(a)": 2.0}

    def test_zeros_are_counted_together(self):
        ds = skate.data.from_arrow(pa.table({"a": [0.0, -0.0]}))
        found = ds.aggregate(aggregate.ValueCounter("a"))["value_counter(a)"]
        assert found == {"values": [0.0], "counts": [2]}

    def test_blocks_have_numbers_for_aggregations_of_ones_own(self):
        block = BlockAccessor.for_block(pa.table({"a": [1, None, 3]}))
        assert (block.sum("a", True), block.min("a", True), block.max("a", True)) == (4, 1, 3)
        assert (block.mean("a", True), block.mean("a", False)) == (2, None)
        assert (block.count("a"), block.count("a", ignore_nulls=True)) == (3, 2)


class TestOfDatasets:
    def test_all_of_them(self):
        dataset = skate.data.range(10)
        assert dataset.sum("id") == 45
        assert dataset.min("id") == 0
        assert dataset.max("id") == 9
        assert dataset.mean("id") == 4.5
        assert dataset.std("id") == pytest.approx(np.std(np.arange(10), ddof=1))
        assert dataset.std("id", ddof=0) == pytest.approx(np.std(np.arange(10)))

    def test_extremes_of_text(self):
        rows = skate.data.from_items([{"t": "b", "n": 2}, {"t": "a", "n": 3}])
        assert rows.min() == {"min(t)": "a", "min(n)": 2}
        assert rows.sum() == 5

    def test_several_columns_give_a_dictionary(self):
        dataset = skate.data.from_items([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
        assert dataset.mean() == {"mean(a)": 2.0, "mean(b)": 3.0}
        assert dataset.sum(["a", "b"]) == {"sum(a)": 4, "sum(b)": 6}

    def test_none(self):
        dataset = skate.data.from_items([{"x": 1}, {"x": None}, {"x": 3}])
        assert dataset.sum("x") == 4
        assert dataset.mean("x") == 2
        assert dataset.sum("x", ignore_nulls=False) is None
        assert dataset.mean("x", ignore_nulls=False) is None

    def test_aggregate(self):
        from skate.data import aggregate as agg

        found = skate.data.range(5).aggregate(
            agg.Count(),
            agg.Quantile("id", q=0.5, alias_name="median"),
            agg.AbsMax("id"),
            agg.AggregateFn(
                init=lambda key: 1,
                accumulate_row=lambda a, row: a * max(row["id"], 1),
                merge=lambda a, b: a * b,
                name="product",
            ),
        )
        assert found == {"count()": 5, "median": 2.0, "abs_max(id)": 4, "product": 24}

    def test_unique(self):
        assert sorted(skate.data.from_items([1, 2, 1, 3]).unique("item")) == [1, 2, 3]

    def test_the_deviation_of_large_numbers_is_exact(self):
        values = 1e9 + np.arange(1000) % 7
        dataset = skate.data.from_numpy([values[:300], values[300:]])
        assert dataset.std("data") == pytest.approx(values.std(ddof=1), rel=1e-9)
