"""ActorGroup: actors that are called together."""

from __future__ import annotations

import pytest

import skate
from skate.util.actor_group import ActorGroup

pytestmark = pytest.mark.usefixtures("engine")


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, amount: int = 1) -> int:
        self.value += amount
        return self.value

    def get_actor_metadata(self) -> str:
        return "a counter"


def test_one_call_reaches_all() -> None:
    group = ActorGroup(Counter, num_actors=2, init_kwargs={"start": 5})
    assert skate.get(group.add.remote(2)) == [7, 7]
    assert group.actor_metadata == ["a counter"] * 2
    assert skate.get(group[0].actor.add.remote()) == 8
    assert skate.get(group.add.remote()) == [9, 8]


def test_actors_come_and_go() -> None:
    group = ActorGroup(Counter, num_actors=1, num_cpus_per_actor=0)
    group.add_actors(2)
    assert len(group) == 3
    group.remove_actors([0, 2])
    assert len(group) == 1
    with pytest.raises(RuntimeError, match="shutdown"):
        group.start()
    member = group[0].actor
    group.shutdown()
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(member.add.remote())
    with pytest.raises(RuntimeError, match="start"):
        group.add  # noqa: B018
    group.start()
    assert skate.get(group.add.remote()) == [1]
    group.shutdown(patience_s=0)


def test_misuse() -> None:
    with pytest.raises(ValueError, match="num_actors"):
        ActorGroup(Counter, num_actors=0)
    with pytest.raises(ValueError, match="num_cpus"):
        ActorGroup(Counter, num_cpus_per_actor=-1)
    group = ActorGroup(Counter)
    with pytest.raises(TypeError, match=r"add\.remote"):
        group.add()
    with pytest.raises(AttributeError, match="subtract"):
        group.subtract  # noqa: B018
