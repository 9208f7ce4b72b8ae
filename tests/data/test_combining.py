"""Datasets together: union, zip, mix."""

import pytest

import skate
import skate.data
from skate.data import MixStoppingCondition

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("inline")
def test_the_schema_of_a_union():
    ds = skate.data.from_items([{"a": 1}]).union(skate.data.from_items([{"a": 1.5, "b": "x"}]))
    assert repr(ds.schema()).split("\n")[2:] == ["a       double", "b       string"]


@pytest.mark.engines("inline")
class TestMix:
    def mixed(self, weights, **arguments):
        many = skate.data.range(8, override_num_blocks=4)
        few = skate.data.from_items([{"id": -1}] * 4, override_num_blocks=2)
        return [row["id"] for row in many.mix(few, weights=weights, **arguments).take_all()]

    def test_in_turn_until_the_last(self):
        assert self.mixed(None) == [0, 1, -1, -1, 2, 3, -1, -1, 4, 5, 6, 7]

    def test_by_weights_until_the_first(self):
        shortest = MixStoppingCondition.STOP_ON_SHORTEST
        assert self.mixed([3, 1], stopping_condition=shortest) == [0, 1, -1, -1, 2, 3, 4, 5, 6, 7]

    def test_mistakes(self):
        with pytest.raises(ValueError, match="one weight per dataset, 2; got"):
            self.mixed([1])
        with pytest.raises(ValueError, match="positive"):
            self.mixed([1, 0])


@pytest.mark.engines("inline")
def test_rows_with_equal_keys_get_into_one_block():
    dataset = skate.data.from_items([{"key": n % 3, "n": n} for n in range(9)])
    by_name = dataset.repartition(keys="key", num_blocks=2).take_all()
    assert by_name == dataset.repartition(keys=["key"], num_blocks=2).take_all()
    assert len({row["n"] for row in by_name}) == 9


def test_union():
    dataset = skate.data.range(2).union(skate.data.range(3), skate.data.range(1))
    assert [row["id"] for row in dataset.take_all()] == [0, 1, 0, 1, 2, 0]


def test_zip_renames_what_collides():
    dataset = skate.data.from_items(["a", "b"]).zip(skate.data.from_items(["c", "d"]))
    assert dataset.take_all() == [{"item": "a", "item_1": "c"}, {"item": "b", "item_1": "d"}]


def test_zip_with_other_blocks():
    left = skate.data.range(100, override_num_blocks=7)
    right = skate.data.range(100, override_num_blocks=3).map(lambda row: row)
    assert all(row["id"] == row["id_1"] for row in left.zip(right).take_all())


def test_columns_of_a_zip_without_rows():
    nothing = skate.data.from_items([{"a": 1}]).limit(0)
    joined = nothing.zip(nothing).join(
        skate.data.from_items([{"a": 1}]), "full_outer", 1, on=["a"], right_suffix="_right"
    )
    assert joined.drop_columns(["a_1"]).take_all() == [{"a": 1}]


def test_zip_of_unequal_lengths():
    with pytest.raises(ValueError, match="10, 9"):
        skate.data.range(10).zip(skate.data.range(9)).take_all()
    with pytest.raises(ValueError, match="0, 9"):
        skate.data.range(9).limit(0).zip(skate.data.range(9)).take_all()


def test_blocks_of_a_union_are_those_of_its_parts():
    three = skate.data.range(9, override_num_blocks=3)
    assert three.union(three, three)._logical_plan.initial_num_blocks() == 9
    assert three.union(three.limit(2))._logical_plan.initial_num_blocks() is not None
    unknown = three.repartition(target_num_rows_per_block=2)
    assert three.union(unknown)._logical_plan.initial_num_blocks() is None
