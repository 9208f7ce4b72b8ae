"""Joins, in memory and by partitions."""

import numpy as np
import pandas as pd
import pytest

import skate
import skate.data
from skate.data import DataContext
from skate.exceptions import TaskError

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.usefixtures("memory")
class TestJoin:
    @pytest.mark.parametrize(
        ("kind", "how"),
        [
            ("inner", "inner"),
            ("left_outer", "left"),
            ("right_outer", "right"),
            ("full_outer", "outer"),
        ],
    )
    def test_joins_are_those_of_pandas(self, kind, how):
        left = pd.DataFrame({"k": np.arange(300) % 50, "x": np.arange(300)})
        right = pd.DataFrame({"k": np.arange(25, 75), "y": np.arange(50.0)})
        joined = skate.data.from_pandas(left).join(
            skate.data.from_pandas(right), kind, 2, on=("k",)
        )
        order = ["k", "x", "y"]
        found = joined.to_pandas()[order].sort_values(order).reset_index(drop=True)
        expected = left.merge(right, on="k", how=how)[order]
        expected = expected.sort_values(order).reset_index(drop=True)
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)

    @pytest.mark.parametrize("kind", ["int32", "float64", "uint8"])
    def test_numbers_of_different_types_are_compared(self, kind):
        left = skate.data.range(600)
        right = skate.data.from_pandas(pd.DataFrame({"id": np.arange(5, 200, dtype=kind)}))
        found = left.join(right, "inner", 2).to_pandas()["id"]
        assert sorted(found) == list(range(5, 200))

    def test_a_categorical_key_and_text(self):
        text = pd.DataFrame({"k": list("abcd") * 100, "x": range(400)})
        kinds = pd.DataFrame({"k": pd.Categorical(["b", "d"]), "y": [1, 2]})
        joined = skate.data.from_pandas(text).join(skate.data.from_pandas(kinds), on="k")
        assert joined.to_pandas().groupby("k")["y"].sum().to_dict() == {"b": 100, "d": 200}

    def test_keys_that_cannot_be_compared_are_named(self):
        text = skate.data.from_items([{"name": str(number)} for number in range(500)])
        joined = skate.data.range(500).join(text, on="id", right_on="name")
        with pytest.raises(TypeError, match=r"'id' is int64 on the left and 'name' is .*: cast"):
            joined.take_all()

    def test_an_empty_side(self):
        nothing, some = skate.data.from_items([]), skate.data.range(3)
        assert nothing.join(some, "inner").count() == some.join(nothing, "inner").count() == 0
        for joined in (nothing.join(some, "right_outer"), some.join(nothing, "left_outer")):
            assert joined.take_all() == [{"id": 0}, {"id": 1}, {"id": 2}]

    def test_semi_and_anti(self):
        left, right = skate.data.range(600), skate.data.range(300)
        assert left.join(right, "left_semi", 1).count() == 300
        assert left.join(right, "left_anti", 1).count() == 300


class TestJoinNames:
    def test_equal_names_need_a_suffix(self):
        one = skate.data.from_items([{"k": 1, "x": 1}])
        with pytest.raises(ValueError, match="suffix"):
            one.join(one, "inner", 1, on="k").take_all()
        row = one.join(one, "inner", 1, on="k", right_suffix="_r").take_all()[0]
        assert row == {"k": 1, "x": 1, "x_r": 1}


@pytest.mark.engines("inline")
def test_keys_of_two_types():
    whole = skate.data.range(3)
    real = whole.map(lambda row: {"id": float(row["id"])})
    with pytest.raises(ValueError, match=r"int64.*double"):
        whole.join(real, "inner", 1, on=("id",), validate_schemas=True)


@pytest.mark.parametrize("least_bytes", [0, 1 << 40], ids=["polars", "arrow"])
class TestNamesOfColumns:
    @pytest.fixture(autouse=True)
    def engine_by_size(self, least_bytes, monkeypatch):
        monkeypatch.setattr(DataContext.get_current(), "engine_min_bytes", least_bytes)

    @pytest.mark.parametrize(
        ("kind", "names"),
        [
            ("inner", ["a", "id", "b"]),
            ("left_outer", ["a", "id", "b"]),
            ("full_outer", ["a", "id", "b"]),
            ("right_outer", ["a", "uid", "b"]),
        ],
    )
    def test_keys_are_those_of_the_side_that_is_kept(self, kind, names):
        left = skate.data.from_items([{"a": n, "id": n} for n in range(3)])
        right = skate.data.from_items([{"uid": n, "b": -n} for n in range(1, 4)])
        joined = left.join(right, kind, on="id", right_on="uid")
        assert joined.take_batch(batch_format="pyarrow").column_names == names
        kept = {"inner": [1, 2], "left_outer": [0, 1, 2], "right_outer": [1, 2, 3]}
        key = names[1]
        found = sorted(row[key] for row in joined.take_all())
        assert found == kept.get(kind, [0, 1, 2, 3])

    def test_a_column_of_the_other_side_with_the_name_of_the_key(self):
        left = skate.data.from_items([{"id": 1, "uid": 6}])
        right = skate.data.from_items([{"id": 21, "uid": 1}])
        options = {"on": "id", "right_on": "uid"}
        joined = left.join(right, "inner", **options, left_suffix="_l", right_suffix="_r")
        assert joined.take_all() == [{"id_l": 1, "uid": 6, "id_r": 21}]
        with pytest.raises(ValueError, match="nothing tells them apart") as raised:
            left.join(right, "inner", **options).take_all()
        assert isinstance(raised.value, TaskError)  # wherever it was that the rows were joined
        assert "cannot be both None" in str(raised.value.cause)
