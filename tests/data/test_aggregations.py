"""Aggregations: what they read, what they make of single values, and of which type."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate.data
from skate.data import aggregate as agg

pytestmark = pytest.mark.usefixtures("engine")


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
