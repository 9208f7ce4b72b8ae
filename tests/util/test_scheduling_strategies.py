"""Scheduling strategies check what they are given."""

from __future__ import annotations

from typing import Any

import pytest

from skate.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)

NODE = "ab" * 28


def test_placement_group_strategy_keeps_its_arguments() -> None:
    strategy = PlacementGroupSchedulingStrategy(None, 2, True)
    assert strategy.placement_group is None
    assert strategy.placement_group_bundle_index == 2
    assert strategy.placement_group_capture_child_tasks is True
    assert PlacementGroupSchedulingStrategy(None).placement_group_bundle_index == -1


def test_node_affinity_takes_the_id_as_text_or_object() -> None:
    assert NodeAffinitySchedulingStrategy(NODE, soft=False).node_id == NODE
    given: Any = bytes.fromhex(NODE)
    assert NodeAffinitySchedulingStrategy(given, soft=True).node_id == NODE


@pytest.mark.parametrize("node_id", ["", "xyz", "ff" * 28])
def test_node_affinity_refuses_what_is_no_id(node_id: str) -> None:
    with pytest.raises(ValueError, match="Invalid node_id"):
        NodeAffinitySchedulingStrategy(node_id, soft=False)


def test_node_affinity_refuses_contradictions() -> None:
    with pytest.raises(ValueError, match="soft=True"):
        NodeAffinitySchedulingStrategy(NODE, soft=False, _spill_on_unavailable=True)
    with pytest.raises(ValueError, match="soft=False"):
        NodeAffinitySchedulingStrategy(NODE, soft=True, _fail_on_unavailable=True)


def test_label_conditions_become_expressions() -> None:
    strategy = NodeLabelSchedulingStrategy(
        {"region": In("eu", "us"), "old": DoesNotExist()},
        soft={"ssd": Exists(), "zone": NotIn("a")},
    )
    assert [(e.key, type(e.operator)) for e in strategy.hard] == [
        ("region", In),
        ("old", DoesNotExist),
    ]
    assert [(e.key, type(e.operator)) for e in strategy.soft] == [("ssd", Exists), ("zone", NotIn)]
    region = strategy.hard[0].operator
    assert isinstance(region, In)
    assert region.values == ["eu", "us"]


@pytest.mark.parametrize("hard", [{}, None, ["region"], {"region": "eu"}, {1: Exists()}])
def test_bad_label_conditions_are_refused(hard: Any) -> None:
    with pytest.raises(ValueError, match=r"condition|hard must be a dict"):
        NodeLabelSchedulingStrategy(hard)


@pytest.mark.parametrize("operator", [In, NotIn])
@pytest.mark.parametrize("values", [(), (1,), ("a", 2)])
def test_operators_take_strings(operator: Any, values: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="takes one or more strings"):
        operator(*values)
