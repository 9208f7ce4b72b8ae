"""Placement groups: reserved at once or never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from skate._core.refs import ObjectRef
from skate._core.serialization import dumps
from skate.engine.inline.resources import (
    Amounts,
    Holding,
    InlineGroup,
    InlineResources,
    group_id,
    total_of,
)
from skate.exceptions import (
    ActorDiedError,
    PlacementGroupExistsError,
    SkateError,
    TaskPlacementGroupRemoved,
)

if TYPE_CHECKING:
    from skate.engine.inline.actors import InlineActor
    from skate.engine.inline.objects import Objects


class Placement:
    """The groups of a session. They live until they are removed, here or by the engine."""

    def __init__(self, objects: Objects, resources: InlineResources) -> None:
        self._objects = objects
        self._resources = resources
        self._groups: dict[ObjectRef[Any], tuple[InlineGroup, Holding]] = {}
        self._inside: dict[ObjectRef[Any], WeakSet[InlineActor]] = {}

    def create(
        self,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        name: str,
        needed: Sequence[Amounts],
    ) -> ObjectRef[object]:
        """Reserve the bundles, if the machine has what is `needed` for each of them."""
        if name and any(g.name == name and not g.removed for g, _ in self._groups.values()):
            raise PlacementGroupExistsError(name)
        group = InlineGroup([dict(bundle) for bundle in bundles], strategy, name)
        ref = self._objects.new()
        ref._entry.group = group
        holding = Holding(total_of(group.bundles))
        self._groups[ref] = (group, holding)
        try:
            self._resources.check(total_of(needed), "the placement group")
        except SkateError as error:
            self._objects.fail(ref, error)
            return ref
        self._resources.hold(holding)
        self._objects.store(ref, dumps(None))
        return ref

    def check(self, group: Any, index: int, amounts: Amounts, what: str) -> None:
        """Raise if `what` cannot run in that bundle."""
        if group._ref not in self._groups:
            raise ValueError(f"{group} does not exist any more")
        record, _ = self._groups[group._ref]
        if record.removed:
            raise TaskPlacementGroupRemoved
        if group._ref._entry.error is not None:
            raise group._ref._entry.error
        if not -1 <= index < len(record.bundles):
            raise ValueError(
                f"the group has {len(record.bundles)} bundles; bundle index {index} is invalid"
            )
        if not record.fits(amounts, index):
            raise ValueError(
                f"{what} asks for {amounts}, which fits into none of the bundles "
                f"{record.bundles if index < 0 else record.bundles[index]}"
            )

    def enter(self, group: Any, actor: InlineActor) -> None:
        self._inside.setdefault(group._ref, WeakSet()).add(actor)

    def remove(self, ref: ObjectRef[object]) -> None:
        """Give back what the group reserves, and end its actors; once, and in its own session."""
        if ref not in self._groups:
            return
        group, holding = self._groups[ref]
        group.removed = True
        self._objects.fail_from_now_on(ref, TaskPlacementGroupRemoved())
        self._resources.free(holding)
        for actor in list(self._inside.pop(ref, ())):
            actor.end(ActorDiedError("Its placement group was removed.", actor.actor_id))

    def find(self, name: str) -> tuple[ObjectRef[object], list[Amounts]]:
        for ref, (group, _) in self._groups.items():
            if name and group.name == name and not group.removed:
                return ref, [dict(bundle) for bundle in group.bundles]
        raise ValueError(f"Failed to look up placement group with name {name!r}")

    def table(self, node_id: str) -> dict[str, dict[str, Any]]:
        groups = self._groups.items()
        return {group_id(ref): _described(ref, group, node_id) for ref, (group, _) in groups}

    def clear(self) -> None:
        self._groups.clear()
        self._inside.clear()


def _described(ref: ObjectRef[object], group: InlineGroup, node_id: str) -> dict[str, object]:
    reserved = ref._entry.error is None
    return {
        "placement_group_id": group_id(ref),
        "name": group.name,
        "bundles": dict(enumerate(group.bundles)),
        "bundles_to_node_id": dict.fromkeys(
            range(len(group.bundles)), node_id if reserved else ""
        ),
        "strategy": group.strategy,
        "state": "REMOVED" if group.removed else "CREATED" if reserved else "PENDING",
        "stats": {"scheduling_state": "FINISHED" if reserved else "INFEASIBLE"},
    }
