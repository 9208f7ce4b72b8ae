"""Actors that nobody can reach any more, because only each other's handles keep them.

A count of holds cannot see a cycle: a parent that has given its own handle to a child, two
actors that know each other. Here the holds that come from idle actors are subtracted, with those
that come from values which only such actors hold. What is left of an actor's count then is from
outside: the driver, a task or call under way, a pinned or stored value. Such an actor lives, and
so does every actor that it can reach.

No input or output here: tables in, actors out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from skate.engine.local.hub.actors import ALIVE, HubActor
from skate.engine.local.objects import ObjectEntry


def unreachable_actors(
    actors: Iterable[HubActor], entries: Mapping[int, ObjectEntry]
) -> list[HubActor]:
    """Return the idle actors that no driver, task, detached or busy actor can reach.

    Args:
        actors: All actors that are not dead.
        entries: The driver's objects by id, with their counts.
    """
    idle = {actor.id: actor for actor in actors if _is_idle(actor)}
    from_outside = _holds_from_outside(idle, entries)
    reached: set[int] = set()
    ahead = [id for id in idle if from_outside.get(id, entries[id].count) > 0]
    while ahead:
        id = ahead.pop()
        if id in reached:
            continue
        reached.add(id)
        if id in idle:
            ahead += _held_by(idle[id])
        elif id in entries:
            ahead += entries[id].contained
    return [actor for id, actor in idle.items() if id not in reached]


def _is_idle(actor: HubActor) -> bool:
    return (
        actor.state == ALIVE
        and not actor.options.detached
        and actor.worker is not None
        and not actor.worker.in_flight
    )


def _holds_from_outside(
    idle: Mapping[int, HubActor], entries: Mapping[int, ObjectEntry]
) -> dict[int, int]:
    """Count who holds what idle actors hold, beside these actors themselves."""
    left: dict[int, int] = {}
    ahead = [id for actor in idle.values() for id in _held_by(actor)]
    while ahead:
        id = ahead.pop()
        entry = entries.get(id)
        if entry is None:
            continue
        left[id] = left.get(id, entry.count) - 1
        if left[id] == 0 and id not in idle:
            ahead += entry.contained
    return left


def _held_by(actor: HubActor) -> Iterator[int]:
    assert actor.worker is not None
    yield from actor.worker.holds
    yield from actor.worker.loans
    yield from actor.creation.nested  # kept for restarts
    for _, entry in actor.creation.dependencies:
        yield entry.id
