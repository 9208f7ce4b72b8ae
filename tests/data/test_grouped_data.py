"""Groups: aggregations, functions of users on each, and columns by group."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate
import skate.data
from skate.data import aggregate as agg
from skate.data.expressions import col

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
def test_columns_without_any_value():
    rows = [{"key": n % 2, "x": None} for n in range(4)]
    grouped = skate.data.from_items(rows).groupby("key")
    for found in (grouped.sum("x"), grouped.mean("x"), grouped.std("x"), grouped.min("x")):
        assert [row.popitem()[1] for row in found.take_all()] == [None, None]


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


@pytest.mark.engines("inline")
def test_a_column_by_group():
    ds = skate.data.from_items([{"g": 1, "v": 1}, {"g": 2, "v": 3}])
    found = ds.groupby("g").with_column("twice", col("v") * 2).sort("g").take_all()
    assert found == [{"g": 1, "v": 1, "twice": 2}, {"g": 2, "v": 3, "twice": 6}]


@pytest.mark.engines("inline")
def test_groups_that_can_be_changed():
    def add(group):
        group["v"] += 1
        return group

    ds = skate.data.from_items([{"g": 1, "v": 1}])
    assert ds.groupby("g").map_groups(add, zero_copy_batch=False).take_all() == [{"g": 1, "v": 2}]


def mixed(rows=2000, seed=0):
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "k": random.integers(0, 7, rows),
            "v": random.normal(size=rows),
            "s": random.choice(["a", "b", None], rows),
            "n": np.arange(rows),
        }
    )


@pytest.mark.usefixtures("memory")
class TestGroups:
    def test_aggregations_are_those_of_pandas(self):
        frame = mixed()
        found = (
            skate.data.from_pandas(frame)
            .groupby("k")
            .aggregate(agg.Mean("v"), agg.Std("v"), agg.Count(), agg.Min("n"), agg.Sum("n"))
            .to_pandas()
        )
        groups = frame.groupby("k")
        assert found["k"].tolist() == sorted(frame["k"].unique())
        np.testing.assert_allclose(found["mean(v)"], groups["v"].mean())
        np.testing.assert_allclose(found["std(v)"], groups["v"].std())
        assert found["count()"].tolist() == groups.size().tolist()
        assert found["min(n)"].tolist() == groups["n"].min().tolist()
        assert found["sum(n)"].tolist() == groups["n"].sum().tolist()

    def test_aggregations_without_a_kernel(self):
        frame = mixed()
        grouped = skate.data.from_pandas(frame).groupby("k")
        found = grouped.aggregate(
            agg.Quantile("v", q=0.9), agg.Unique("s", ignore_nulls=True)
        ).to_pandas()
        expected = frame.groupby("k")["v"].quantile(0.9)
        np.testing.assert_allclose(found["quantile(v)"], expected)
        assert all(sorted(values) == ["a", "b"] for values in found["unique(s)"])

    def test_map_groups(self):
        def top(group):
            return group.nlargest(1, "v")

        frame = mixed()
        grouped = skate.data.from_pandas(frame).groupby("k")
        found = grouped.map_groups(top, batch_format="pandas").to_pandas()
        expected = frame.loc[frame.groupby("k")["v"].idxmax()].sort_values("k")
        assert found.sort_values("k")["n"].tolist() == expected["n"].tolist()

    def test_several_keys(self):
        frame = mixed()
        found = skate.data.from_pandas(frame).groupby(["k", "s"]).count().to_pandas()
        assert found["count()"].sum() == len(frame)
        assert len(found) == len(frame.groupby(["k", "s"], dropna=False))

    def test_several_keys_of_which_one_is_categorical(self):
        frame = mixed().astype({"s": "category"})
        grouped = skate.data.from_pandas(frame).groupby(["k", "s"])
        expected = frame.groupby(["k", "s"], dropna=False, observed=True)["n"].sum()
        assert grouped.sum("n").to_pandas()["sum(n)"].tolist() == expected.tolist()
        found = grouped.map_groups(lambda group: {"sum": [group["n"].sum()]}).to_pandas()
        assert sorted(found["sum"]) == sorted(expected)


class TestGroupsOfFewRows:
    def test_no_key_is_one_group(self):
        assert skate.data.range(4).groupby(None).sum("id").take_all() == [{"sum(id)": 6}]

    def test_a_group_of_one_row_has_no_deviation(self):
        found = skate.data.from_items([{"k": 1, "v": 2.0}]).groupby("k").std("v").take_all()
        assert np.isnan(found[0]["std(v)"])

    def test_extremes_of_all_columns_that_have_an_order(self):
        rows = [{"g": 0, "t": "b", "n": 2, "l": [1]}, {"g": 0, "t": "a", "n": 3, "l": [2]}]
        groups = skate.data.from_items(rows).groupby("g")
        assert groups.min().take_all() == [{"g": 0, "min(t)": "a", "min(n)": 2}]
        assert groups.max().take_all() == [{"g": 0, "max(t)": "b", "max(n)": 3}]
        assert groups.sum().take_all() == [{"g": 0, "sum(n)": 5}]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((5,), "a list of them; got 5"),
            (("id", 0), "num_partitions takes .* at least 1; got 0"),
        ],
    )
    def test_what_makes_no_groups(self, arguments, words):
        with pytest.raises(ValueError, match=words):
            skate.data.range(2).groupby(*arguments)

    def test_a_wrong_key_lists_the_columns(self):
        with pytest.raises(KeyError, match=r"'kk'.*\['id'\]"):
            skate.data.range(3).groupby("kk").count().take_all()


def test_keys_that_are_called_like_a_result():
    sizes = skate.data.from_items([{"a": n} for n in (1, 1, 2, 3)]).groupby("a").count()
    found = sizes.groupby("count()").count().take_all()
    assert found == [{"count()": 1, "count()_2": 2}, {"count()": 2, "count()_2": 1}]


@pytest.mark.engines("local")
def test_who_has_no_rows_misses_no_column():
    rows = skate.data.range(10).map(lambda row: row).filter(lambda row: row["id"] > 10)
    assert rows.groupby("nowhere").count().take_all() == []
    assert rows.select_columns(["nowhere"]).take_all() == []
    with pytest.raises(KeyError, match="nowhere"):
        skate.data.range(10).map(lambda row: row).groupby("nowhere").count().take_all()


def test_blocks_of_what_is_computed():
    grouped = skate.data.range(20).groupby("id", num_partitions=3)
    counted = grouped.count().materialize()
    assert counted.num_blocks() == 3
    assert [row["id"] for row in counted.take_all()] == list(range(20))
    together = skate.data.range(20).repartition(3, keys="id")
    assert together._logical_plan.initial_num_blocks() == 3
