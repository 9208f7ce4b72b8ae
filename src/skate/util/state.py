"""What there is: actors, tasks, objects, workers, placement groups, the machine, what is printed.

Rows are dictionaries whose keys are attributes too. `filters` are triples, as in
`list_actors(filters=[("state", "=", "ALIVE")])`; `detail` changes nothing, because rows are always
complete. Of the tasks that have ended the last ten thousand are kept, each attempt as a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import skate
from skate._core.public_names import name_publicly
from skate.engine import current_engine
from skate.util._state_kinds import ROWS_OF, TaskState
from skate.util._state_logs import get_log, list_logs
from skate.util._state_rows import Filters, StateRow, chosen, completed
from skate.util._state_sources import all_rows
from skate.util._state_summaries import summarize_actors, summarize_objects, summarize_tasks

__all__ = [
    "StateRow",
    "get_actor",
    "get_job",
    "get_log",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_cluster_events",
    "list_jobs",
    "list_logs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_runtime_envs",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]

_ONE_SESSION = """

    Args:
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once."""
_ARGUMENTS = f"""{_ONE_SESSION}
        filters: Triples of a key, "=" or "!=", and a value; rows have to meet all of them.
        limit: How many rows to return at the most; up to 10,000.
        detail: Without effect: rows are always complete.
        raise_on_missing_output: Without effect: nothing is missing.
        _explain: Without effect: no query is made that could be explained.
    """


# -- lists --------------------------------------------------------------------------------------


Listing: TypeAlias = Callable[..., list[StateRow]]
Getting: TypeAlias = Callable[..., "StateRow | None"]


def _lister(kind: str, doc: str) -> Listing:
    def listing(
        address: str | None = None,
        filters: Filters | None = None,
        limit: int = 100,
        timeout: float = 30,
        detail: bool = False,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> list[StateRow]:
        return chosen(all_rows(kind, current_engine()), filters, limit, ROWS_OF[kind])

    listing.__name__ = listing.__qualname__ = f"list_{kind}"  # which errors of calls tell
    listing.__doc__ = f"{doc}{_ARGUMENTS}"
    return listing


list_actors: Listing = _lister("actors", "List the actors, also those that have ended lately.")
list_tasks: Listing = _lister("tasks", "List tasks and calls, also those that have ended lately.")
list_objects: Listing = _lister("objects", "List the objects that someone refers to.")
list_workers: Listing = _lister(
    "workers", "List processes that run tasks and actors, also those that ended."
)
list_nodes: Listing = _lister("nodes", "List the machines.")
list_jobs: Listing = _lister(
    "jobs", "List this program, and the jobs that were submitted on this machine."
)
list_runtime_envs: Listing = _lister(
    "runtime_envs", "List the runtime environment of the session, and those in use."
)
list_cluster_events: Listing = _lister(
    "cluster_events", "List what went wrong: processes that ended unexpectedly."
)
list_placement_groups: Listing = _lister(
    "placement_groups", "List placement groups, also those that were removed."
)


# -- one of them --------------------------------------------------------------------------------


def _getter(kind: str, key: str, doc: str) -> Getting:
    def getting(
        id: str, address: str | None = None, timeout: float = 30, _explain: bool = False
    ) -> StateRow | None:
        found = (row for row in all_rows(kind, current_engine()) if row[key] == id)
        return next(completed(found, ROWS_OF[kind]), None)

    getting.__name__ = getting.__qualname__ = f"get_{kind.removesuffix('s')}"
    getting.__doc__ = f"{doc}{_ONE_SESSION}\n        _explain: Without effect, too.\n    "
    return getting


get_actor: Getting = _getter("actors", "actor_id", "Return the actor with that id, or None.")
get_worker: Getting = _getter("workers", "worker_id", "Return the worker with that id, or None.")
get_job: Getting = _getter(
    "jobs", "submission_id", "Return the job that was submitted with that id, or None."
)
get_node: Getting = _getter("nodes", "node_id", "Return the machine with that id, or None.")
get_placement_group: Getting = _getter(
    "placement_groups", "placement_group_id", "Return the group with that id, or None."
)


def get_task(
    id: object, address: str | None = None, timeout: float = 30, _explain: bool = False
) -> Any:
    """Return what is known of a task: a row, a list of rows if it was tried repeatedly, or None.

    Args:
        id: The task's id, or a reference to its result.
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once.
        _explain: Without effect, too.
    """
    wanted = id.task_id().hex() if isinstance(id, skate.ObjectRef) else id
    found = (row for row in current_engine().state("tasks") if row["task_id"] == wanted)
    attempts = sorted(completed(found, TaskState), key=lambda row: int(row["attempt_number"]))
    return attempts if len(attempts) > 1 else next(iter(attempts), None)


def get_objects(
    id: str, address: str | None = None, timeout: float = 30, _explain: bool = False
) -> list[StateRow]:
    """Return what is known of an object, as a list of one; an empty one if nothing is.

    Args:
        id: The object's id, as hexadecimal digits.
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once.
        _explain: Without effect, too.
    """
    return list_objects(filters=[("object_id", "=", id)])


name_publicly(__name__)
