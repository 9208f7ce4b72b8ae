"""Groups of actors that exchange tensors, made and found from outside of them.

Between actors of one machine tensors travel through shared memory, whether or not they are in a
group: `@method(tensor_transport="gloo")` and its kin need none. A group is for the operations of
`skate.util.collective` inside the actors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import skate
from skate._core.argument_checks import text, wrong_type, wrong_value
from skate.util import collective

__all__ = [
    "CommunicatorHandle",
    "create_collective_group",
    "destroy_all_collective_groups",
    "destroy_collective_group",
    "get_collective_groups",
]

_groups: dict[str, CommunicatorHandle] = {}


class CommunicatorHandle:
    """A group of actors, as the process knows it that has made it."""

    def __init__(self, actors: Sequence[object], name: str, backend: str) -> None:
        self._actors = list(actors)
        self._name = name
        self._backend = backend

    @property
    def actors(self) -> list[Any]:
        """Return the actors, in the order of their ranks."""
        return self._actors[:]

    @property
    def name(self) -> str:
        """Return the name by which operations choose the group."""
        return self._name

    @property
    def backend(self) -> str:
        """Return who carries the tensors: "gloo"."""
        return self._backend

    def get_rank(self, actor: object) -> int:
        """Return the rank of an actor, or -1 if it is not in the group."""
        return self._actors.index(actor) if actor in self._actors else -1


def create_collective_group(
    actors: list[object], backend: str, name: str | None = None
) -> CommunicatorHandle:
    """Make a group of actors, each with its place in the list as its rank.

    Args:
        actors: Handles of the actors.
        backend: "gloo".
        name: By which the actors choose the group in their operations; without it, one is made up.

    Raises:
        ValueError: If the name is taken, an actor is there twice, or there is no such backend.
    """
    handles: object = actors
    if not isinstance(handles, list) or not all(
        isinstance(actor, skate.actor.ActorHandle) for actor in handles
    ):
        raise wrong_type("actors", actors, "a list of actors")
    if not actors or len(set(actors)) < len(actors):
        raise wrong_value("actors", actors, "at least one actor, and each once")
    name = os.urandom(8).hex() if name is None else text("name", name)
    if name in _groups:
        raise ValueError(f"there is a group named {name!r} already; destroy it, or choose another")
    backend = text("backend", backend).lower()
    ranks = list(range(len(actors)))
    collective.create_collective_group(actors, len(actors), ranks, backend, name)
    _groups[name] = CommunicatorHandle(actors, name, backend)
    return _groups[name]


def get_collective_groups(
    actors: list[object], backend: str | None = None
) -> list[CommunicatorHandle]:
    """Return the groups of this process that all of these actors are in.

    Args:
        actors: Handles of actors.
        backend: Leave out groups of other backends.
    """
    return [
        group
        for group in _groups.values()
        if set(actors) <= set(group.actors)
        and (backend is None or group.backend == text("backend", backend).lower())
    ]


def destroy_collective_group(group_or_name: CommunicatorHandle | str) -> None:
    """Have all actors leave a group.

    Args:
        group_or_name: The group, or its name.

    Raises:
        ValueError: If this process has no such group.
    """
    if isinstance(group_or_name, CommunicatorHandle):
        name = group_or_name.name
    else:
        name = text("group_or_name", group_or_name)
    group = _groups.pop(name, None)
    if group is None:
        raise ValueError(f"there is no group named {name!r}; there are {sorted(_groups)}")
    leaving = [actor.__ray_call__.remote(_leave, name) for actor in group.actors]
    skate.wait(leaving, num_returns=len(leaving))  # those that have died need not leave


def _leave(_: object, name: str) -> None:
    collective.destroy_collective_group(name)


def destroy_all_collective_groups() -> None:
    """Have the actors of all groups of this process leave them."""
    for name in list(_groups):
        destroy_collective_group(name)
