"""`ray.util.state.StateApiClient`, and what it is asked with."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import skate
from skate.engine import current_engine
from skate.util import state
from skate.util._state_kinds import TaskState
from skate.util._state_rows import chosen
from skate.util._state_summaries import summary_of

__all__ = [
    "GetApiOptions",
    "ListApiOptions",
    "StateApiClient",
    "StateResource",
    "SummaryApiOptions",
    "SummaryResource",
]

_LIMIT = 100
_SECONDS = 30


class StateResource(Enum):
    """What can be listed."""

    ACTORS = "actors"
    JOBS = "jobs"
    PLACEMENT_GROUPS = "placement_groups"
    NODES = "nodes"
    WORKERS = "workers"
    TASKS = "tasks"
    OBJECTS = "objects"
    RUNTIME_ENVS = "runtime_envs"
    CLUSTER_EVENTS = "cluster_events"


class SummaryResource(Enum):
    """What can be summed up."""

    ACTORS = "actors"
    TASKS = "tasks"
    OBJECTS = "objects"


@dataclass
class ListApiOptions:
    """What a list is to have; `timeout`, `detail` and the multiplier are without effect."""

    limit: int = _LIMIT
    timeout: float = _SECONDS
    detail: bool = False
    filters: list[tuple[str, str, Any]] | None = field(default_factory=list)
    exclude_driver: bool = True
    server_timeout_multiplier: float = 0.8


@dataclass
class GetApiOptions:
    """How long to wait: without effect, as the answer is there at once."""

    timeout: float = _SECONDS
    server_timeout_multiplier: float = 0.8


@dataclass
class SummaryApiOptions:
    """What to sum up; `timeout` is without effect.

    `summary_by` is None, or what rows of the kind are counted by: "class" of actors, "func_name"
    of tasks, "callsite" of objects.
    """

    timeout: float = _SECONDS
    filters: list[tuple[str, str, Any]] | None = field(default_factory=list)
    summary_by: str | None = None


class StateApiClient:
    """Asks the session of this program."""

    def __init__(
        self,
        address: str | None = None,
        cookies: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
    ) -> None:
        """Make a client. No server is asked: address, cookies and headers are without effect."""

    def list(
        self,
        resource: StateResource,
        options: ListApiOptions,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> list[state.StateRow]:
        """Return the rows of a kind; before tasks the driver, unless that is excluded."""
        listing = getattr(state, f"list_{resource.value}")
        rows: list[state.StateRow] = listing(filters=options.filters, limit=options.limit)
        if resource is StateResource.TASKS and not options.exclude_driver:
            rows = chosen([_driver_task()], options.filters, 1, TaskState) + rows
        return rows[: options.limit]

    def get(
        self,
        resource: StateResource,
        id: str,
        options: GetApiOptions | None = None,
        _explain: bool = False,
    ) -> Any:
        """Return the one with that id, as the functions `get_...` do."""
        name = resource.value if resource is StateResource.OBJECTS else resource.value[:-1]
        return getattr(state, f"get_{name}")(id)

    def summary(
        self,
        resource: SummaryResource,
        *,
        options: SummaryApiOptions | None = None,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> dict[str, Any]:
        """Return how many there are, as the functions `summarize_...` do, of what meets filters.

        Raises:
            ValueError: If they are to be counted by something else than their kind is.
        """
        asked = options or SummaryApiOptions()
        found = summary_of(resource.value, current_engine(), asked.filters)
        by = found["cluster"]["summary_by"]
        if asked.summary_by not in (None, by):
            raise ValueError(
                f"{resource.value} are summed up by {by!r}; got summary_by={asked.summary_by!r}: "
                "list them, and count by what you need"
            )
        return found


def _driver_task() -> dict[str, Any]:
    """Return the program itself, as a row of tasks."""
    context = skate.get_runtime_context()
    (driver,) = state.list_workers(filters=[("worker_type", "=", "DRIVER")])
    return {
        "task_id": "f" * 48,
        "attempt_number": 0,
        "name": "",
        "state": "RUNNING",
        "job_id": context.get_job_id(),
        "actor_id": None,
        "type": "DRIVER_TASK",
        "func_or_class_name": "",
        "parent_task_id": "",
        "node_id": driver["node_id"],
        "worker_id": driver["worker_id"],
        "worker_pid": os.getpid(),
        "error_type": None,
        "start_time_ms": driver["start_time_ms"],
        "end_time_ms": None,
    }
