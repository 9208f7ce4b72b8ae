from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from skate.serve._routing.choosing import for_model, least_busy, less_busy
from skate.serve._routing.routed_replica import ReplicaEntry, RoutedReplica

MOST = 3


@dataclass
class FakeActor:
    handle_request: object = None
    handle_stream: object = None


@dataclass(eq=False)
class FakeRequest:
    model_id: str = ""


def replica(tag: str, ongoing: int = 0, *models: str) -> RoutedReplica:
    made = RoutedReplica(ReplicaEntry(tag, cast(Any, FakeActor()), models))
    for _ in range(ongoing):
        made.add(cast(Any, FakeRequest()))
    return made


def test_the_one_with_fewest_requests_is_the_least_busy() -> None:
    busy, idle = replica("busy", 2), replica("idle", 1)
    assert least_busy([busy, idle], MOST) is idle
    assert less_busy([busy, idle], MOST) is idle


@pytest.mark.parametrize("count", [1, 2, 3])
def test_none_is_chosen_where_all_are_full(count: int) -> None:
    full = [replica(str(number), MOST) for number in range(count)]
    assert less_busy(full, MOST) is None
    assert for_model(full, "m", MOST) is None


def test_of_many_the_only_one_with_room_is_found() -> None:
    free = replica("free", MOST - 1)
    others = [replica(str(number), MOST) for number in range(20)]
    assert less_busy([*others, free], MOST) is free


def test_a_replica_that_has_the_model_gets_the_request_although_it_is_busier() -> None:
    having, idle = replica("having", 2, "m"), replica("idle")
    assert for_model([idle, having], "m", MOST) is having


def test_a_new_model_goes_to_whoever_has_fewest() -> None:
    many, few = replica("many", 0, "a", "b"), replica("few", 2, "a")
    assert for_model([many, few], "new", MOST) is few


def test_a_new_model_goes_to_the_same_replica_from_everywhere() -> None:
    tags = [str(number) for number in range(8)]
    here = [replica(tag) for tag in tags]
    there = [replica(tag) for tag in reversed(tags)]
    chosen, other = for_model(here, "m", MOST), for_model(there, "m", MOST)
    assert chosen is not None
    assert other is not None
    assert chosen.tag == other.tag
