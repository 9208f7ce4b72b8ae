"""Groups: functions of users on each, and columns by group."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import skate
import skate.data
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
