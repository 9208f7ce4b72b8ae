"""`ray.worker`: the process, as programs ask for it."""

from __future__ import annotations

from typing import Any

import cloudpickle as pickle

import skate
from skate._facade.client_context import ClientContext as RayContext
from skate.engine import current_engine, installed_engine
from skate.util import get_node_ip_address

__all__ = [
    "LOCAL_MODE",
    "SCRIPT_MODE",
    "WORKER_MODE",
    "BaseContext",
    "Node",
    "RayContext",
    "Worker",
    "get_dashboard_url",
    "get_resource_ids",
    "global_worker",
    "pickle",
]

SCRIPT_MODE = 0
WORKER_MODE = 1
LOCAL_MODE = 2
BaseContext = RayContext


def get_dashboard_url() -> str | None:
    """Return the address of the dashboard that the environment names, or None."""
    return skate.get_runtime_context().get_dashboard_url() or None


def get_resource_ids() -> dict[str, list[tuple[int, float]]]:
    """Return what this task or actor has, by resource: numbers of devices, and how much of each.

    In a placement group resources have the group's id in their names, as in Ray, and the number
    of the bundle if there is but one.
    """
    context = skate.get_runtime_context()
    numbered, group = context.get_accelerator_ids(), skate.util.get_current_placement_group()
    found: dict[str, list[tuple[int, float]]] = {}
    for name, amount in context.get_assigned_resources().items():
        devices = [int(one) for one in numbered.get(name, ())] or [0]
        share = [(device, amount / len(devices)) for device in devices]
        if group is None:
            found[name] = share
            continue
        found[f"{name}_group_{group.id.hex()}"] = share
        if group.bundle_count == 1:
            found[f"{name}_group_0_{group.id.hex()}"] = share
    return found


class RayNode:
    """The machine that the process runs on."""

    @property
    def unique_id(self) -> str:
        return skate.get_runtime_context().get_node_id()

    @property
    def node_ip_address(self) -> str:
        return get_node_ip_address()

    @property
    def address_info(self) -> dict[str, Any]:
        """What `init` returns: addresses and folders of the session."""
        return RayContext(current_engine()).address_info


class CoreWorker:
    """The objects of the session, as tests count them that look for leaks."""

    def get_all_reference_counts(self) -> dict[bytes, dict[str, int]]:
        """Return for each object, by its id, how often it is referred to and by calls to come."""
        return {
            id.encode(): {
                "local": int(row["reference_type"] == "LOCAL_REFERENCE"),
                "submitted": int(row["reference_type"] == "USED_BY_PENDING_TASK"),
            }
            for id, row in self._objects().items()
        }

    def get_memory_store_size(self) -> int:
        """Return how many objects there are."""
        return len(self._objects())

    def object_exists(self, object_ref: Any, memory_store_only: bool = False) -> bool:
        """Return whether the value is there; there is one store, whichever is asked for."""
        row = self._objects().get(object_ref.hex())
        return row is not None and row["task_status"] in ("FINISHED", "FAILED")

    def _objects(self) -> dict[str, Any]:
        """Return the rows by their ids, without those that stand for actors."""
        engine = current_engine()
        actors = tuple(row["actor_id"] for row in engine.state("actors"))
        rows = {row["object_id"]: row for row in engine.state("objects")}
        return {id: row for id, row in rows.items() if not id.endswith(actors)}


class RayWorker:
    """This process."""

    core_worker = CoreWorker()

    @property
    def connected(self) -> bool:
        return skate.is_initialized()

    @property
    def mode(self) -> int | None:
        """SCRIPT_MODE, WORKER_MODE or LOCAL_MODE; None before `init`."""
        engine = installed_engine()
        if engine is None:
            return None
        if not engine.has_workers:
            return LOCAL_MODE
        return WORKER_MODE if skate.get_runtime_context().get_task_id() else SCRIPT_MODE

    @property
    def current_job_id(self) -> Any:
        return skate.get_runtime_context().get()["job_id"]

    @property
    def current_node_id(self) -> Any:
        return skate.get_runtime_context().get()["node_id"]

    @property
    def node(self) -> RayNode:
        return RayNode()

    @property
    def worker_id(self) -> str:
        return skate.get_runtime_context().get_worker_id()


Node = RayNode  # Ray's names
Worker = RayWorker
global_worker = RayWorker()
