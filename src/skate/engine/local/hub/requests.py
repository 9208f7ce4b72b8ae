"""What can be asked of the hub: by the driver directly, by a worker in a REQUEST message.

All methods run under the engine's lock. Public ones take and return plain values only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate import exceptions
from skate.engine.base import ActorOptions
from skate.engine.local.hub import errors, inventory
from skate.engine.local.hub.actors import DEAD, Actor
from skate.engine.local.hub.groups import Group
from skate.engine.local.hub.resources import from_units, to_units
from skate.engine.local.hub.work import Run, Task
from skate.engine.local.objects import FAILED, STORED

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine
    from skate.engine.local.hub.workers import Worker


class Requests:
    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._hub = engine.hub

    # -- actors --------------------------------------------------------------------------------

    def claim_name(self, options: ActorOptions) -> Actor | None:
        """None if the name is free; the existing actor if that is wanted. Raises ValueError."""
        if options.name is None:
            return None
        existing = self._hub.names.get(self._name_key(options.name, options.namespace))
        if existing is None or options.get_if_exists:
            return existing
        raise exceptions.ActorAlreadyExistsError(
            f"The name {options.name!r} is already taken by an actor in namespace "
            f"{options.namespace or self._engine.namespace!r}; use get_actor, or "
            "get_if_exists=True"
        )

    def new_actor(self, task: Task, options: ActorOptions, class_name: str, meta: Any) -> None:
        settings = task.plan.settings
        assert settings is not None
        concurrent = settings["is_async"] or settings["max_concurrency"] > 1
        concurrent = concurrent or bool(settings["concurrency_groups"])
        actor = Actor(task, options, class_name, meta, concurrent)
        actor.key = self._name_key(options.name, options.namespace)
        task.actor = actor
        self._hub.create_actor(actor)

    def _name_key(self, name: str | None, namespace: str | None) -> tuple[str, str]:
        return namespace or self._engine.namespace, name or ""

    def find_actor(self, name: str, namespace: str | None) -> Actor:
        actor = self._hub.names.get(self._name_key(name, namespace))
        if actor is None:
            known = [f"{name!r} (in {namespace!r})" for namespace, name in self._hub.names]
            names = ", ".join(known) or "none"
            raise ValueError(
                f"Failed to look up actor with name {name!r}: there is none in namespace "
                f"{namespace or self._engine.namespace!r}; actors with names: {names}"
            )
        return actor

    def get_actor(self, name: str, namespace: str | None) -> tuple[int, Any]:
        actor = self.find_actor(name, namespace)
        return actor.id, actor.meta

    def named_actors(self, all_namespaces: bool) -> list[tuple[str, str]]:
        own = self._engine.namespace
        return [key for key in self._hub.names if all_namespaces or key[0] == own]

    def kill(self, actor_id: int, no_restart: bool) -> None:
        actor = self._hub.actors.get(actor_id)
        if actor is not None and actor.state != DEAD:
            self._hub.kill_actor(actor, no_restart)

    def cancel(self, id: int, force: bool, recursive: bool) -> None:
        entry = self._engine.entries.get(id)
        if entry is None:
            return
        if force and entry.task is not None and entry.task.method:
            raise ValueError("force=True is not supported for actor tasks; use skate.kill(actor)")
        self._hub.cancel(entry, force, recursive)

    # -- resources -----------------------------------------------------------------------------

    def cluster_resources(self) -> dict[str, float]:
        return from_units(self._hub.scheduler.machine.total)

    def add_resources(self, amounts: dict[str, float]) -> None:
        self._hub.scheduler.grow(to_units(amounts))

    def available_resources(self) -> dict[str, float]:
        free = from_units(self._hub.scheduler.machine.free)
        stored = self._engine.spilling.bytes_in_memory
        free["object_store_memory"] = max(0.0, self._engine.store.capacity - stored)
        return free

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "NodeID": self._engine.node_id,
                "Alive": True,
                "NodeManagerAddress": "127.0.0.1",
                "NodeManagerHostname": "localhost",
                "NodeManagerPort": 0,
                "ObjectManagerPort": 0,
                "ObjectStoreSocketName": "",
                "RayletSocketName": "",
                "MetricsExportPort": 0,
                "NodeName": "127.0.0.1",
                "RuntimeEnvAgentPort": 0,
                "DeathReason": 0,
                "DeathReasonMessage": "",
                "alive": True,
                "Resources": self.cluster_resources(),
                "Labels": self._engine.labels,
            }
        ]

    def state(self, kind: str) -> list[dict[str, Any]]:
        return inventory.rows(self._engine, kind)

    def timeline(self) -> list[dict[str, Any]]:
        return [
            {
                "cat": "task",
                "name": f"{run.name}.{run.method}" if run.method else run.name,
                "ph": "X",
                "pid": "skate",
                "tid": run.pid,
                "ts": run.end * 1e6 - run.micros,
                "dur": run.micros,
            }
            for run in map(Run._make, self._hub.runs)
            if run.micros
        ]

    # -- placement groups ----------------------------------------------------------------------

    def create_group(
        self,
        id: int,
        bundles: Any,
        strategy: str,
        name: str,
        detached: bool,
        *,
        creator: Worker | None = None,
    ) -> None:
        """A new group. It lives until it is removed, or the actor that made it is killed."""
        scheduler = self._hub.scheduler
        if name and any(group.name == name for group in scheduler.groups.values()):
            raise ValueError(f"a placement group named {name!r} exists already")
        actor = creator is not None and creator.actor is not None
        group = Group(id, bundles, strategy, name, creator if actor and not detached else None)
        problem = group.why_impossible(scheduler.machine)
        if problem is not None:
            hex_id = group.describe(self._engine.node_id)["placement_group_id"]
            text = (
                f"placement group {name or hex_id}: {problem}. There is {self.cluster_resources()}"
            )
            error = errors.packed(exceptions.TaskUnschedulableError(text))
            self._engine.complete(self._engine.entries[id], FAILED, error)
            return
        self._hub.counts.add((id,))  # until it is removed
        scheduler.groups[id] = group
        scheduler.dispatch_all()

    def remove_group(self, id: int) -> None:
        self._hub.remove_group(id)

    def find_group(self, name: str) -> tuple[int, list[dict[str, float]]]:
        for group in self._hub.scheduler.groups.values():
            if name and group.name == name:
                return group.id, group.bundles
        names = [group.name for group in self._hub.scheduler.groups.values() if group.name]
        raise ValueError(
            f"Failed to look up placement group with name {name!r}; named groups: {names}"
        )

    def group_table(self) -> dict[str, dict[str, Any]]:
        groups = [*self._hub.scheduler.groups.values(), *self._hub.removed_groups]
        rows = [group.describe(self._engine.node_id) for group in groups]
        return {str(row["placement_group_id"]): row for row in rows}

    # -- memory --------------------------------------------------------------------------------

    def locate(self, id: int) -> Any:
        """Where an object's segment is now. Raises ObjectLostError if there is none."""
        entry = self._engine.entries.get(id)
        if entry is None or entry.kind != STORED or not self._engine.store.exists(entry.data):
            raise exceptions.ObjectLostError(f"{id:056x}")
        return entry.data
