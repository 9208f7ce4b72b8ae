"""The handles of placement groups; what groups do is in the contract suite."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import skate
from skate.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from skate.util.placement_group import PlacementGroup, check_placement_group_index
from tests.support import PATIENCE, local_only

pytestmark = pytest.mark.usefixtures("engine")

BUNDLES = [{"CPU": 1.0}, {"CPU": 0.5}]


@skate.remote(num_cpus=0)
def bundles_of(group: PlacementGroup) -> tuple[bool, list[dict[str, float]]]:
    return group.wait(PATIENCE), group.bundle_specs


def test_ready_gives_the_group() -> None:
    group = placement_group(BUNDLES)
    assert skate.get(group.ready(), timeout=PATIENCE) == group
    assert group.wait(PATIENCE)
    assert (group.bundle_count, group.bundle_specs) == (2, BUNDLES)
    assert not group.is_empty


def test_a_handle_can_be_sent() -> None:
    group = placement_group(BUNDLES)
    assert skate.get(bundles_of.remote(group), timeout=PATIENCE) == (True, BUNDLES)
    assert skate.get(skate.put([group])) == [group]
    assert {group: 1}[skate.get(skate.put(group))] == 1


def test_a_handle_can_be_made_from_the_id() -> None:
    group = placement_group(BUNDLES)
    again = PlacementGroup(group.id)
    assert again == group
    assert again.bundle_specs == BUNDLES
    assert again.wait(PATIENCE)


def test_a_handle_from_an_unknown_id_says_so() -> None:
    with pytest.raises(ValueError, match="no placement group with the id"):
        PlacementGroup(skate.PlacementGroupID.from_random()).bundle_specs  # noqa: B018


def test_a_group_is_found_by_its_name() -> None:
    group = placement_group(BUNDLES, name="mine", lifetime="detached")
    found = get_placement_group("mine")
    assert found == group
    assert found.bundle_specs == BUNDLES
    with pytest.raises(ValueError, match="not empty"):
        get_placement_group("")
    with pytest.raises(ValueError, match="other"):
        get_placement_group("other")


def test_the_table() -> None:
    group = placement_group(BUNDLES, strategy="STRICT_PACK", name="mine")
    group.wait(PATIENCE)
    row = placement_group_table(group)
    assert placement_group_table()[group.id.hex()] == row
    assert (row["name"], row["strategy"], row["state"]) == ("mine", "STRICT_PACK", "CREATED")
    assert list(row["bundles"].values()) == BUNDLES


def test_a_removed_group_gives_its_resources_back() -> None:
    before = skate.available_resources()["CPU"]
    group = placement_group(BUNDLES)
    group.wait(PATIENCE)
    assert skate.available_resources()["CPU"] == before - 1.5
    remove_placement_group(group)
    assert skate.available_resources()["CPU"] == before


def test_no_group() -> None:
    empty = PlacementGroup.empty()
    assert empty.is_empty
    assert empty.wait(0)
    assert empty.bundle_count == 0
    assert skate.get(empty.ready()) == empty == pickle.loads(pickle.dumps(empty))
    assert get_current_placement_group() is None


@pytest.mark.parametrize(
    "bundles", [None, [], {}, [{}], [{"CPU": 0}], [{"CPU": -1}], [{"CPU": "1"}], [{1: 1}], ["CPU"]]
)
def test_bad_bundles_are_refused(bundles: Any) -> None:
    with pytest.raises(ValueError, match="bundles must be"):
        placement_group(bundles)


@pytest.mark.parametrize(
    "arguments",
    [
        {"strategy": "TIGHT"},
        {"lifetime": "forever"},
        {"_soft_target_node_id": "ab"},
        {"bundle_label_selector": []},
        {"bundle_label_selector": {}},
        {"bundle_label_selector": [{}, {}]},
        {"bundle_label_selector": ["zone"]},
        {"bundle_label_selector": [None]},
        {"bundle_label_selector": [{"zone": 1}]},
        {"bundle_label_selector": [{"a zone": "a"}]},
        {"bundle_label_selector": [{"zone": "!in(a"}]},
        {"topology_strategy": {"a": "PACK"}},
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        placement_group([{"CPU": 1}], **arguments)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="name takes a string; got 3"):
        placement_group([{"CPU": 1}], name=3)  # type: ignore[arg-type]


def test_the_bundle_index_is_checked() -> None:
    group = placement_group(BUNDLES)
    for index in (-1, 0, 1):
        check_placement_group_index(group, index)
    for index in (-2, 2):
        with pytest.raises(ValueError, match="bundles 0 to 1"):
            check_placement_group_index(group, index)
    check_placement_group_index(PlacementGroup.empty(), -1)
    with pytest.raises(ValueError, match="must be -1"):
        check_placement_group_index(PlacementGroup.empty(), 0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bundles": []}, "bundles"),
        ({"bundles": [{"bundle": 1}]}, "bundle"),
        ({"bundles": [{"CPU": 1}], "strategy": "TIGHT"}, "Invalid placement group strategy"),
        ({"bundles": [{"CPU": 1}], "lifetime": "long"}, "lifetime"),
    ],
)
def test_arguments_can_be_checked_beforehand(given: dict[str, Any], words: str) -> None:
    from skate.util import placement_group as made
    from skate.util.placement_group import (
        VALID_PLACEMENT_GROUP_STRATEGIES,
        validate_placement_group,
    )

    with pytest.raises(ValueError, match=words):
        validate_placement_group(**given)
    with pytest.raises(ValueError, match=words):
        made(**given)
    for strategy in VALID_PLACEMENT_GROUP_STRATEGIES:
        validate_placement_group([{"CPU": 1}], strategy=strategy)


@local_only
def test_how_often_and_how_long_a_group_was_tried_for() -> None:
    everything = [{"CPU": skate.cluster_resources()["CPU"]}]
    first = placement_group(everything)
    skate.get(first.ready())
    second = placement_group(everything)
    remove_placement_group(first)
    skate.get(second.ready())
    stats = placement_group_table(second)["stats"]
    assert (stats["scheduling_state"], stats["scheduling_attempt"] > 1) == ("FINISHED", True)
    assert stats["end_to_end_creation_latency_ms"] > 0
    remove_placement_group(second)
