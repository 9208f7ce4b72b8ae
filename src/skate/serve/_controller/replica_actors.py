"""The actors of replicas, as the controller handles them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import skate
from skate.exceptions import SkateError
from skate.serve._controller.replicas import StartReplica
from skate.serve._identity import GANG_GROUP, NAMESPACE, DeploymentID, ReplicaID
from skate.serve._replica.actor import LIFE_SIGNS, Replica
from skate.serve._replica.replica_info import ReplicaInfo
from skate.serve._system_actors import MAX_CALLS, lists_calls

if TYPE_CHECKING:
    from skate.serve._controller.saved_state import StateReference
    from skate.serve._identity import ReplicaHandle
    from skate.serve.gang import GangContext
    from skate.util.placement_group import PlacementGroup
    from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy


async def create(action: StartReplica, saved_state: StateReference) -> ReplicaHandle:
    """Start the actor of a replica, once there is room for all that it asks for."""
    options = action.spec.options
    strategy = await _reserve(action) if _has_group(action) else None
    actor_class = _class_for(action.id.deployment_id).options(
        **options.actor_options,
        scheduling_strategy=strategy,
        name=action.id.actor_name,
        namespace=NAMESPACE,
        lifetime="detached",
        max_concurrency=MAX_CALLS,  # the replica limits requests, and others must get through
        enable_task_events=lists_calls(),
    )
    here = skate.get_runtime_context().current_actor
    actor: ReplicaHandle = actor_class.remote(action.id, action.spec, here, saved_state)
    return actor


@lru_cache(maxsize=64)
def _class_for(id: DeploymentID) -> Any:
    """Return the actor class of a deployment's replicas, whose name says in the state of actors,
    and in errors, which deployment it is."""
    name = f"ServeReplica:{id.app_name}:{id.name}"
    replica_class = type(name, (Replica,), {"__module__": Replica.__module__})
    return skate.remote(concurrency_groups={LIFE_SIGNS: 1})(replica_class)


def _has_group(action: StartReplica) -> bool:
    return bool(action.spec.options.bundles if action.gang is None else action.gang.pg_name)


def group_of(id: ReplicaID, gang: GangContext | None) -> str:
    """Return the name of the placement group that a replica, or its whole gang, may have."""
    return id.actor_name if gang is None else gang.pg_name


async def _reserve(action: StartReplica) -> PlacementGroupSchedulingStrategy:
    """Reserve a placement group, for all of a gang the same one. The replica is in the first of
    its bundles, what it starts in others."""
    from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = _group(action)
    await group.ready()
    rank = 0 if action.gang is None else action.gang.rank
    return PlacementGroupSchedulingStrategy(
        group,
        placement_group_bundle_index=rank * len(action.spec.options.bundles_of_replica),
        placement_group_capture_child_tasks=True,
    )


def _group(action: StartReplica) -> PlacementGroup:
    from skate.util.placement_group import get_placement_group, placement_group

    options, name = action.spec.options, group_of(action.id, action.gang)
    if action.gang is not None and action.gang.rank > 0:
        return get_placement_group(name)  # of the first of the gang
    strategy = options.bundle_strategy
    if options.gangs is not None:
        strategy = options.gangs.gang_placement_strategy.value
    bundles = [dict(bundle) for bundle in options.bundles_of_replica * options.gang_size]
    return placement_group(bundles, strategy, name=name, lifetime="detached")


def give_back(group: str) -> None:
    """Remove the placement group of this name, if there is one."""
    from skate.util.placement_group import get_placement_group, remove_placement_group

    try:
        remove_placement_group(get_placement_group(group))
    except (ValueError, SkateError):
        pass  # there is none


def groups_of_replicas() -> list[str]:
    """Return the names of all placement groups that were reserved for replicas."""
    from skate.util.placement_group import placement_group_table

    rows = placement_group_table().values()
    names = [str(row["name"]) for row in rows if row["state"] != "REMOVED"]
    return [name for name in names if name.startswith(GANG_GROUP) or ReplicaID.is_actor_name(name)]


async def start(actor: ReplicaHandle, action: StartReplica) -> ReplicaInfo:
    """Make the user's instance; return what the replica tells about it."""
    started = actor.start.remote(action.rank, action.world_size, os.getpid(), action.gang)
    info: ReplicaInfo = await started
    return info


async def health(actor: ReplicaHandle, by_its_code: bool, timeout: float) -> str | None:
    """Return why the replica is not well; None if it is. Where its code does not say it, it is as
    long as its process answers."""
    check = actor.check_health if by_its_code else actor.is_alive
    try:
        await asyncio.wait_for(check.remote().as_future(), timeout)
    except asyncio.TimeoutError:
        return f"no answer within {timeout} s"
    except Exception as error:
        return str(error)
    return None


async def drain(actor: ReplicaHandle, patience: float) -> None:
    """Let it finish what it has, for so many seconds at most."""
    try:
        await asyncio.wait_for(actor.drain.remote().as_future(), patience)
    except (asyncio.TimeoutError, SkateError):
        pass


def kill(actor: ReplicaHandle) -> None:
    """End the actor."""
    try:
        skate.kill(actor)
    except SkateError:
        pass


def find_running() -> Iterator[tuple[ReplicaID, ReplicaHandle]]:
    """Find the replicas of a controller that is no more."""
    from skate.util import list_named_actors

    entries: list[Any] = list_named_actors(all_namespaces=True)
    for entry in entries:
        name = entry["name"]
        if entry["namespace"] == NAMESPACE and ReplicaID.is_actor_name(name):
            try:
                actor = skate.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                continue
            yield ReplicaID.from_full_id_str(name), actor
