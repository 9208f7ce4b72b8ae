"""Datasets together: union, zip, mix."""

import pytest

import skate.data
from skate.data import MixStoppingCondition

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


def test_the_schema_of_a_union():
    ds = skate.data.from_items([{"a": 1}]).union(skate.data.from_items([{"a": 1.5, "b": "x"}]))
    assert repr(ds.schema()).split("\n")[2:] == ["a       double", "b       string"]


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
