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
from skate.serve._identity import NAMESPACE, DeploymentID, ReplicaID
from skate.serve._replica.actor import Replica, ReplicaInfo

if TYPE_CHECKING:
    from skate.serve._controller.saved_state import StateReference
    from skate.serve._identity import ReplicaHandle
    from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

_MAX_CALLS = (
    100_000  # calls at a time: the replica itself limits requests, and others must get through
)


async def create(action: StartReplica, saved_state: StateReference) -> ReplicaHandle:
    """Start the actor of a replica, once there is room for all that it asks for."""
    options = action.spec.options
    strategy = await _reserve(action) if options.bundles else None
    actor_class = skate.remote(_class_for(action.id.deployment_id)).options(
        **options.actor_options,
        scheduling_strategy=strategy,
        name=action.id.actor_name,
        namespace=NAMESPACE,
        lifetime="detached",
        max_concurrency=_MAX_CALLS,
    )
    here = skate.get_runtime_context().current_actor
    actor: ReplicaHandle = actor_class.remote(action.id, action.spec, here, saved_state)
    return actor


@lru_cache(maxsize=64)
def _class_for(id: DeploymentID) -> Any:
    """Return the class of a deployment's replicas, whose name says in the state of actors, and in
    errors, which deployment it is."""
    name = f"ServeReplica:{id.app_name}:{id.name}"
    return type(name, (Replica,), {"__module__": Replica.__module__})


async def _reserve(action: StartReplica) -> PlacementGroupSchedulingStrategy:
    """Reserve a placement group: the replica is in the first bundle, what it starts in others."""
    from skate.util.placement_group import placement_group
    from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    options = action.spec.options
    bundles = [dict(bundle) for bundle in options.bundles]
    group = placement_group(
        bundles, options.bundle_strategy, name=action.id.actor_name, lifetime="detached"
    )
    await group.ready()
    return PlacementGroupSchedulingStrategy(
        group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
    )


def _give_back(id: ReplicaID) -> None:
    from skate.util.placement_group import get_placement_group, remove_placement_group

    try:
        remove_placement_group(get_placement_group(id.actor_name))
    except ValueError:
        pass  # it had none


async def start(actor: ReplicaHandle, action: StartReplica) -> ReplicaInfo:
    """Make the user's instance; return what the replica tells about it."""
    started = actor.start.remote(action.rank, action.world_size, os.getpid())
    info: ReplicaInfo = await started
    return info


async def health(actor: ReplicaHandle, timeout: float) -> str | None:
    """Return why the replica is not well; None if it is."""
    try:
        await asyncio.wait_for(actor.check_health.remote().as_future(), timeout)
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


def kill(actor: ReplicaHandle, id: ReplicaID) -> None:
    """End the actor, and what was reserved for it."""
    try:
        skate.kill(actor)
        _give_back(id)
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
