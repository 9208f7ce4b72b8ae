"""What there is: actors, tasks, objects, workers, placement groups, the machine.

Rows are dictionaries whose keys are attributes too. `filters` are triples, as in
`list_actors(filters=[("state", "=", "ALIVE")])`; `detail` changes nothing, because rows are always
complete. Of the tasks that have ended the last ten thousand are kept.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import skate
from skate._core.argument_checks import whole_number, wrong_type
from skate.engine import current_engine
from skate.util.placement_group import placement_group_table

__all__ = [
    "StateRow",
    "get_actor",
    "get_job",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_jobs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]

Filters = Sequence[tuple[str, str, Any]]
_Rows = Callable[[], Iterable[dict[str, Any]]]


_ONE_SESSION = """

    Args:
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once."""
_ARGUMENTS = f"""{_ONE_SESSION}
        filters: Triples of a key, "=" or "!=", and a value; rows have to meet all of them.
        limit: How many rows to return at the most.
        detail: Without effect: rows are always complete.
        raise_on_missing_output: Without effect: nothing is missing.
        _explain: Without effect: no query is made that could be explained.
    """


class StateRow(dict[str, Any]):
    """One of the things that were asked for."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}, only {', '.join(self)}") from None


# -- lists --------------------------------------------------------------------------------------


def _of(kind: str) -> _Rows:
    return lambda: current_engine().state(kind)


def _nodes() -> Iterable[dict[str, Any]]:
    return map(_node_row, skate.nodes())


def _groups() -> Iterable[dict[str, Any]]:
    return placement_group_table().values()


def _jobs() -> Iterable[dict[str, Any]]:
    """Yield this program, and what was submitted on this machine."""
    from dataclasses import asdict

    from skate.job_submission import JobDetails, JobStatus, JobSubmissionClient, JobType

    id, address = skate.get_runtime_context().get_job_id(), current_engine().address
    jobs = JobSubmissionClient(address).list_jobs()
    if id not in (details.job_id for details in jobs):
        jobs.insert(
            0, JobDetails(JobType.DRIVER, JobStatus.RUNNING, shlex.join(sys.argv), job_id=id)
        )
    for details in jobs:
        row = asdict(details)
        yield {**row, "type": details.type.value, "status": details.status.value}


def _node_row(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "node_id": node["NodeID"],
        "node_ip": node["NodeManagerAddress"],
        "state": "ALIVE" if node["Alive"] else "DEAD",
        "node_name": node["NodeName"],
        "resources_total": node["Resources"],
        "labels": node.get("Labels", {}),
    }


Listing: TypeAlias = Callable[..., list[StateRow]]
Getting: TypeAlias = Callable[..., "StateRow | None"]


def _lister(rows: _Rows, doc: str) -> Listing:
    def listing(
        address: str | None = None,
        filters: Filters | None = None,
        limit: int = 100,
        timeout: float = 30,
        detail: bool = False,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> list[StateRow]:
        return _chosen(rows(), filters, limit)

    listing.__doc__ = f"{doc}{_ARGUMENTS}"
    return listing


list_actors: Listing = _lister(
    _of("actors"), "List the actors, also those that have ended lately."
)
list_tasks: Listing = _lister(
    _of("tasks"), "List tasks and calls, also those that have ended lately."
)
list_objects: Listing = _lister(_of("objects"), "List the objects that someone refers to.")
list_workers: Listing = _lister(
    _of("workers"), "List processes that run tasks and actors, also those that ended."
)
list_nodes: Listing = _lister(_nodes, "List the machines.")
list_jobs: Listing = _lister(
    _jobs, "List this program, and the jobs that were submitted on this machine."
)
list_placement_groups: Listing = _lister(
    _groups, "List placement groups, also those that were removed."
)


# -- one of them --------------------------------------------------------------------------------


def _getter(rows: _Rows, key: str, doc: str) -> Getting:
    def getting(
        id: str, address: str | None = None, timeout: float = 30, _explain: bool = False
    ) -> StateRow | None:
        return next((StateRow(row) for row in rows() if row[key] == id), None)

    getting.__doc__ = f"{doc}{_ONE_SESSION}\n        _explain: Without effect, too.\n    "
    return getting


get_actor: Getting = _getter(_of("actors"), "actor_id", "Return the actor with that id, or None.")
get_worker: Getting = _getter(
    _of("workers"), "worker_id", "Return the worker with that id, or None."
)
get_job: Getting = _getter(
    _jobs, "submission_id", "Return the job that was submitted with that id, or None."
)
get_node: Getting = _getter(_nodes, "node_id", "Return the machine with that id, or None.")
get_placement_group: Getting = _getter(
    _groups, "placement_group_id", "Return the group with that id, or None."
)
_get_task = _getter(_of("tasks"), "task_id", "")


def get_task(id: object, address: str | None = None, timeout: float = 30) -> StateRow | None:
    """Return what is known of a task; None if nothing is.

    Args:
        id: The task's id, or a reference to its result.
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once.
    """
    return _get_task(id.task_id().hex() if isinstance(id, skate.ObjectRef) else id)


def get_objects(id: str, address: str | None = None, timeout: float = 30) -> list[StateRow]:
    """Return what is known of an object, as a list of one; an empty one if nothing is.

    Args:
        id: The object's id, as hexadecimal digits.
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once.
    """
    return list_objects(filters=[("object_id", "=", id)])


# -- summaries ----------------------------------------------------------------------------------


def summarize_actors(address: str | None = None, timeout: float = 30) -> dict[str, Any]:
    """Return how many actors of each class are in which state.

    Args:
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once.
    """
    return _summary(current_engine().state("actors"), "class_name", "state")


def summarize_tasks(address: str | None = None, timeout: float = 30) -> dict[str, Any]:
    """Return how many tasks of each function are in which state.

    Args:
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once.
    """
    return _summary(current_engine().state("tasks"), "func_or_class_name", "state")


def summarize_objects(address: str | None = None, timeout: float = 30) -> dict[str, Any]:
    """Return how many objects there are, and how many bytes.

    Args:
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once.
    """
    rows = current_engine().state("objects")
    total = sum(row["object_size"] for row in rows)
    return {"cluster": {"total_objects": len(rows), "total_size_mb": total / 1e6}}


def _summary(rows: list[dict[str, Any]], title: str, state: str) -> dict[str, Any]:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row[title], Counter())[row[state]] += 1
    summary = {
        name: {title: name, "state_counts": dict(states)} for name, states in counts.items()
    }
    return {"cluster": {"summary": summary, "total": len(rows)}}


# -- filters ------------------------------------------------------------------------------------


def _chosen(rows: Iterable[dict[str, Any]], filters: Filters | None, limit: int) -> list[StateRow]:
    if not isinstance(filters, (list, tuple, type(None))):
        raise wrong_type("filters", filters, 'a list of triples like ("state", "=", "ALIVE")')
    limit = whole_number("limit", limit, 0)
    wanted = [_checked(filter) for filter in filters or ()]
    found = (StateRow(row) for row in rows if all(_fits(row, *one) for one in wanted))
    return [row for _, row in zip(range(limit), found, strict=False)]


def _checked(filter: object) -> tuple[str, bool, Any]:
    if not isinstance(filter, (tuple, list)) or len(filter) != 3 or not isinstance(filter[0], str):
        raise ValueError(f'a filter is a triple like ("state", "=", "ALIVE"); got {filter!r}')
    key, predicate, value = filter
    if predicate not in ("=", "!="):
        raise ValueError(f"a filter compares with '=' or '!='; got {filter!r}")
    return key.lower(), predicate == "=", value


def _fits(row: dict[str, Any], key: str, equal: bool, value: object) -> bool:
    if key not in row:
        raise ValueError(f"a filter takes one of {', '.join(row)}; got {key!r}")
    return (_comparable(row[key]) == _comparable(value)) is equal


def _comparable(value: object) -> Any:
    """Return it as on a command line, where filters come from: 12 is "12", True is "true"."""
    return str(value).lower()
