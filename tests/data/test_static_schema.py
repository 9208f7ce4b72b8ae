"""Columns that are known before anything runs, also where there are no rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from skate.data.aggregate import Count, Max, Mean, Quantile, Std, Sum, Unique
from skate.data.expressions import col

pytestmark = pytest.mark.usefixtures("engine")

EMPTY_FRAME = pd.DataFrame({"id": pd.Series([], dtype="int64"), "name": pd.Series([], dtype=str)})

MAKERS = {
    "filtered": lambda: skate.data.range(10).filter(lambda row: False),
    "filtered by an expression": lambda: skate.data.range(10).filter(expr="id > 10"),
    "limited": lambda: skate.data.range(10).limit(0),
    "an empty range": lambda: skate.data.range(0),
    "an empty frame": lambda: skate.data.from_pandas(EMPTY_FRAME),
    "an empty part": lambda: skate.data.range(10).split_at_indices([0])[0],
}

COLUMNS_AFTER = {
    "itself": lambda ds: (ds, ds.columns()),
    "kept": lambda ds: (ds.materialize(), ds.columns()),
    "a part": lambda ds: (ds.split(2)[1], ds.columns()),
    "sorted": lambda ds: (ds.sort("id"), ds.columns()),
    "shuffled": lambda ds: (ds.random_shuffle(), ds.columns()),
    "repartitioned": lambda ds: (ds.repartition(3), ds.columns()),
    "selected": lambda ds: (ds.select_columns(["id"]), ["id"]),
    "counted": lambda ds: (ds.groupby("id").count(), ["id", "count()"]),
    "united": lambda ds: (ds.union(ds), ds.columns()),
    "joined": lambda ds: (ds.join(skate.data.range(3), "inner", 1, on=("id",)), ds.columns()),
}


def _left():
    columns = {"k": pa.array([1, 2], pa.int32()), "s": ["x", "y"], "x": [0.5, 1.5]}
    return skate.data.from_arrow(pa.table(columns))


def _right():
    columns = {"k": [2, 3], "s": pa.array(["y", "z"], pa.large_string()), "v": [[1], [2]]}
    return skate.data.from_arrow(pa.table(columns))


def _by_key(*functions):
    return _left().groupby("s").aggregate(*functions)


KNOWN = {
    "filter by a function": lambda: _left().filter(lambda row: row["k"] > 1),
    "filter by an expression": lambda: _left().filter(expr=col("k") > 1),
    "sample": lambda: _left().random_sample(1.0, seed=0),
    "union": lambda: _left().union(_right()).filter(expr=col("k") > 0).sort("k"),
    "zip": lambda: _left().zip(_right(), _left()),
    "sum": lambda: _by_key(Sum("k"), Sum("x")),
    "count": lambda: _by_key(Count(), Count("x", alias_name="n")),
    "mean": lambda: _by_key(Mean("k"), Std("x"), Max("k"), Max("s")),
    "two keys": lambda: _left().groupby(["s", "k"]).sum("x"),
    "all rows": lambda: _left().groupby(None).aggregate(Sum("k"), Mean("x")),
    "groups, filtered": lambda: _by_key(Sum("k")).filter(expr=col("sum(k)") > 1).limit(1),
}


class TestOfOperations:
    @pytest.mark.parametrize("maker", KNOWN)
    def test_what_is_known_is_what_comes(self, maker):
        dataset = KNOWN[maker]()
        known = dataset.schema(fetch_if_missing=False)
        assert known is not None
        assert known.base_schema.equals(dataset.materialize().schema().base_schema)
        assert "shape: (" in repr(dataset)

    @pytest.mark.parametrize("kind", ["inner", "full_outer", "right_outer", "left_semi"])
    def test_joins(self, kind):
        joined = _left().join(_right(), kind, 1, on=("k",), left_suffix="_l", right_suffix="_r")
        known = joined.schema(fetch_if_missing=False)
        assert known is not None
        assert known.base_schema.equals(joined.materialize().schema().base_schema)

    def test_what_depends_on_rows_is_unknown(self):
        mapped = _left().map(lambda row: row)
        parts = skate.data.from_arrow([pa.table({"k": [1]}), pa.table({"k": [1.5], "b": [2]})])
        other = _left().union(_right())
        for dataset in (
            mapped.zip(_left()),
            mapped.union(_left()),
            _by_key(Sum("k"), Unique("k")),
            _by_key(Quantile("k")),
            _left().groupby("s").sum("s"),  # which fails
            parts.groupby("k").count(),
            parts.zip(parts),
            other.filter(expr=col("k") > 1).zip(_left()),
        ):
            assert dataset.schema(fetch_if_missing=False) is None
            assert "shape: (" not in repr(dataset)


class TestKnownColumns:
    def test_missing_ones_are_an_error_at_once(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
        for rows in (
            skate.data.from_items([{"a": 1}]),
            skate.data.range(3).rename_columns({"id": "a"}),
            skate.data.from_items([{"a": 1}]).filter(lambda row: False),
            skate.data.from_items([{"a": 1}]).zip(skate.data.range(1)),
            skate.data.from_items([{"a": 1}]).groupby("a").count(),
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


def test_columns_of_an_input_without_rows_stay() -> None:
    nothing = skate.data.range(10).filter(expr="id > 100")
    assert nothing.to_pandas().columns.tolist() == ["id"]
    schema = nothing.schema()
    assert schema is not None
    assert schema.names == ["id"]
    assert skate.data.range(10).filter(lambda row: False).columns() == ["id"]


@pytest.mark.engines("inline")
@pytest.mark.parametrize("operation", COLUMNS_AFTER)
@pytest.mark.parametrize("maker", MAKERS)
def test_columns(maker, operation):
    dataset, columns = COLUMNS_AFTER[operation](MAKERS[maker]())
    frame = dataset.to_pandas()
    assert len(frame) == 0
    assert list(frame.columns) == columns
    assert frame["id"].dtype == "int64"


@pytest.mark.engines("inline")
@pytest.mark.parametrize("maker", MAKERS)
def test_functions_are_not_called(maker):
    def fail(_):
        raise AssertionError

    empty = MAKERS[maker]()
    for mapped in (empty.map(fail), empty.map_batches(fail), empty.flat_map(fail)):
        assert mapped.take_all() == []
    assert empty.count() == 0
    assert list(empty.iter_batches()) == []
    assert empty.sum("id") is None
