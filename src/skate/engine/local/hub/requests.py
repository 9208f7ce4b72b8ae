"""What can be asked of the hub: by the driver directly, by a worker in an `AskHub` message.

All of it runs with the engine's lock held, and takes and returns plain values only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate import exceptions
from skate._core.measurements import port_of_session
from skate.engine.local.hub import inventory
from skate.engine.local.hub.actors import DEAD
from skate.engine.local.hub.object_rows import all_object_rows
from skate.engine.local.hub.resources import UNIT, from_units, to_units
from skate.engine.local.hub.task_states import has_begun
from skate.engine.local.hub.timeline import events
from skate.engine.local.objects import STORED

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.actor_names import ActorNames
    from skate.engine.local.hub.lifecycle import ActorLifecycle
    from skate.engine.local.hub.placement import PlacementGroups
    from skate.engine.local.hub.ports import Ports
    from skate.engine.local.hub.scheduler import Scheduler
    from skate.engine.local.hub.state import SessionFacts, State
    from skate.engine.local.hub.tasks import TaskLifecycle
    from skate.engine.local.hub.waits import WorkerWaits
    from skate.engine.local.store import Location


class Requests:
    """Answers questions about a session, by the names in `answers`."""

    def __init__(
        self,
        ports: Ports,
        info: SessionFacts,
        state: State,
        scheduler: Scheduler,
        tasks: TaskLifecycle,
        lifecycle: ActorLifecycle,
        names: ActorNames,
        placement: PlacementGroups,
        waits: WorkerWaits,
    ) -> None:
        self._ports = ports
        self._info = info
        self._state = state
        self._scheduler = scheduler
        self._tasks = tasks
        self._lifecycle = lifecycle
        self._names = names
        self._waits = waits
        self.answers: dict[str, Callable[..., Any]] = {
            "add_resources": self._add_resources,
            "available_resources": self._available_resources,
            "cancel": self._cancel,
            "cluster_resources": self._cluster_resources,
            "create_group": placement.create,
            "find_group": placement.find,
            "get_actor": self._get_actor,
            "group_table": placement.table,
            "has_begun": self._has_begun,
            "kill": self._kill,
            "locate": self.locate,
            "named_actors": names.all,
            "nodes": self._nodes,
            "printed": ports.printed,
            "remove_group": placement.remove,
            "set_resource": self._set_resource,
            "state": self.rows,
            "timeline": lambda: events(state),
            "waits": self._waits_for,
        }

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """Return what there is of a kind, as `Engine.state` says."""
        if kind == "objects":
            return all_object_rows(self._state)
        return inventory.rows(self._info, self._state, kind)

    # -- actors and tasks ----------------------------------------------------------------------

    def _get_actor(self, name: str, namespace: str | None) -> tuple[int, Packed]:
        actor = self._names.find(name, namespace)
        return actor.id, actor.meta

    def _kill(self, actor_id: int, no_restart: bool) -> None:
        actor = self._state.actors.get(actor_id)
        if actor is not None and actor.state != DEAD:
            self._lifecycle.kill(actor, no_restart)

    def _cancel(self, id: int, force: bool, recursive: bool) -> None:
        entry = self._state.entries.get(id)
        if entry is None:
            return
        if force and entry.task is not None and entry.task.method:
            raise ValueError("force=True is not supported for actor tasks; use skate.kill(actor)")
        self._tasks.cancel(entry, force, recursive)

    def _has_begun(self, id: int) -> bool:
        entry = self._state.entries.get(id)
        if entry is None or entry.kind is not None or entry.task is None:
            return True
        return has_begun(entry.task)

    # -- resources -----------------------------------------------------------------------------

    def _cluster_resources(self) -> dict[str, float]:
        return from_units(self._scheduler.machine.total)

    def _add_resources(self, amounts: dict[str, float]) -> None:
        self._scheduler.grow(to_units(amounts))

    def _set_resource(self, name: str, capacity: float) -> None:
        more = round(capacity * UNIT) - self._scheduler.machine.total.get(name, 0)
        if more > 0:
            self._scheduler.grow({name: more})
        elif more < 0:
            self._scheduler.shrink({name: -more})

    def _available_resources(self) -> dict[str, float]:
        free = from_units(self._scheduler.machine.free)
        owed = from_units(self._scheduler.machine.owed)
        free.update({name: -amount for name, amount in owed.items()})
        stored = self._ports.spilling.bytes_in_memory
        free["object_store_memory"] = max(0.0, self._ports.store.capacity - stored)
        return free

    def _nodes(self) -> list[dict[str, object]]:
        return [
            {
                "NodeID": self._info.node_id,
                "Alive": True,
                "NodeManagerAddress": "127.0.0.1",
                "NodeManagerHostname": "localhost",
                "NodeManagerPort": 0,
                "ObjectManagerPort": 0,
                "ObjectStoreSocketName": "",
                "RayletSocketName": "",
                "MetricsExportPort": port_of_session(),
                "NodeName": "127.0.0.1",
                "RuntimeEnvAgentPort": 0,
                "MetricsAgentPort": 0,
                "DashboardAgentListenPort": 0,
                "DeathReason": 0,
                "DeathReasonMessage": "",
                "alive": True,
                "Resources": self._cluster_resources(),
                "Labels": self._info.labels,
            }
        ]

    def _waits_for(self, ids: list[int]) -> list[dict[str, object]]:
        """Return why objects that a worker waits for are not there."""
        found = (self._state.entries.get(id) for id in ids)
        return self._waits.facts([entry for entry in found if entry is not None])

    # -- memory --------------------------------------------------------------------------------

    def locate(self, id: int) -> Location:
        """Return where an object's segment is now. Raises ObjectLostError if there is none."""
        entry = self._state.entries.get(id)
        if entry is None or entry.kind != STORED or not self._ports.store.exists(entry.data):
            raise exceptions.ObjectLostError(f"{id:056x}")
        location: Location = entry.data
        return location
