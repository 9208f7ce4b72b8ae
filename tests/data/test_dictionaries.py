"""Columns of categories, of which each block has a dictionary of its own."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import skate.data
from skate.data._arrow.blocks import concat

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def colours():
    frames = [["red", "blue", None], ["blue", "green", "red"], ["yellow", None, "blue"]]
    return skate.data.from_pandas(
        [
            pd.DataFrame({"colour": pd.Categorical(values), "part": [0, 1, 1], "x": [1, 2, 3]})
            for values in frames
        ]
    )


def test_groups(colours):
    sums = colours.groupby("colour").sum("x").take_all()
    assert [(row["colour"], row["sum(x)"]) for row in sums] == [
        ("blue", 6), ("green", 2), ("red", 4), ("yellow", 1), (None, 5),
    ]  # fmt: skip
    counts = colours.groupby(["part", "colour"]).count().take_all()
    assert [(row["part"], row["colour"], row["count()"]) for row in counts] == [
        (0, "blue", 1), (0, "red", 1), (0, "yellow", 1),
        (1, "blue", 2), (1, "green", 1), (1, "red", 1), (1, None, 2),
    ]  # fmt: skip


def test_groups_stay_categories(colours):
    frame = colours.groupby("colour").count().to_pandas()
    assert isinstance(frame["colour"].dtype, pd.CategoricalDtype)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("inner", ["blue", "blue", "blue", "green"]),
        ("left_outer", ["blue", "blue", "blue", "green", "red", "red", "yellow", None, None]),
        ("full_outer", [*["blue"] * 3, "green", "pink", "red", "red", "yellow", None, None]),
        ("left_anti", ["red", "red", "yellow", None, None]),
        ("right_anti", ["pink"]),
    ],
)
def test_joins(colours, kind, found):
    names = skate.data.from_pandas(
        [
            pd.DataFrame({"colour": pd.Categorical(["green", "blue"]), "n": [1, 2]}),
            pd.DataFrame({"colour": pd.Categorical(["pink"]), "n": [3]}),
        ]
    )
    joined = colours.join(names, join_type=kind, num_partitions=1, on=("colour",))
    colours_found = [row["colour"] for row in joined.take_all()]
    assert sorted(colours_found, key=lambda name: (name is None, name)) == found


def test_categories_beside_plain_text_are_text(colours):
    plain = skate.data.from_items([{"colour": "red", "part": 1, "x": 9}])
    assert colours.union(plain).groupby("colour").count().take(3)[2] == {
        "colour": "red", "count()": 3,
    }  # fmt: skip
    together = colours.union(plain).repartition(1).schema()
    assert together.types[0] in (pa.string(), pa.large_string())


def numbered(first: int, count: int, indices: pa.DataType) -> pa.Table:
    values = pa.array([str(number) for number in range(first, first + count)])
    return pa.table({"c": values.dictionary_encode().cast(pa.dictionary(indices, pa.string()))})


@pytest.mark.parametrize("second", [pa.int8(), pa.int16()])
def test_more_values_together_than_the_type_of_each_can_number(second):
    table = concat([numbered(0, 100, pa.int8()), numbered(50, 100, second)])
    assert pa.types.is_dictionary(table["c"].type)
    assert table["c"].to_pylist() == [*map(str, range(100)), *map(str, range(50, 150))]
    assert table.group_by("c").aggregate([]).num_rows == 150


def test_none_as_one_of_the_values():
    with_none = pa.array(["a", None]).dictionary_encode(null_encoding="encode")
    plain = pa.array(["b"]).dictionary_encode()
    table = concat([pa.table({"c": with_none}), pa.table({"c": plain})])
    assert table["c"].to_pylist() == ["a", None, "b"]
    assert table.group_by("c").aggregate([]).num_rows == 3
