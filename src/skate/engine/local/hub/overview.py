"""What a session amounts to: numbers, who holds which bytes, what is waited for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from skate.engine.local.hub import inventory
from skate.engine.local.hub.object_rows import object_row
from skate.engine.local.hub.task_states import TaskStates
from skate.engine.local.hub.work import TaskRun

if TYPE_CHECKING:
    from skate.engine.local.hub.inventory import Row
    from skate.engine.local.hub.state import SessionFacts, State
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.objects import ObjectEntry

_INDEX_BITS = 0xFFFF  # of an id: which value of its task it is


def summary(info: SessionFacts, state: State) -> Row:
    """Return how many workers, actors, tasks and bytes there are, by state."""
    states = TaskStates()
    objects = [object_row(entry, states) for entry in _entries(state)]
    spilled = sum(row["object_size"] for row in objects if row["spilled"])
    return {
        "workers": _counted(inventory.rows(info, state, "live_workers")),
        "actors": _counted(inventory.rows(info, state, "actors")),
        "tasks": _counted(inventory.rows(info, state, "tasks")),
        "objects": len(objects),
        "object_bytes": sum(row["object_size"] for row in objects) - spilled,
        "spilled_bytes": spilled,
    }


def _counted(rows: Iterable[Row]) -> dict[str, int]:
    return dict(Counter(row["state"] for row in rows))


# -- memory ---------------------------------------------------------------------------------------


def memory(state: State) -> list[Row]:
    """Return the objects that have bytes, the largest first, with who made and who holds each."""
    made = {run[0]: TaskRun._make(run) for run in state.runs}
    holders, states = _holders(state), TaskStates()
    rows = [
        {
            "object_id": row["object_id"],
            "size": row["object_size"],
            "where": "disk" if row["spilled"] else "memory",
            "made_by": _maker(made.get(id - (id & _INDEX_BITS)), id, state),
            "held_by": holders.get(id, []),
            "references": row["reference_count"],
        }
        for id, row in ((entry.id, object_row(entry, states)) for entry in _entries(state))
        if row["object_size"]
    ]
    return sorted(rows, key=lambda row: -row["size"])


def _maker(run: TaskRun | None, id: int, state: State) -> str:
    """Return the task whose value it is, or who has called `put`."""
    if run is not None:
        return inventory.called(run.name, run.method, run.actor != 0)
    process = id >> 64
    worker = state.workers.get(process)
    if process == 0:
        return "put in the driver"
    return f"put in pid {worker.pid}" if worker is not None else "put in a worker that has ended"


def _holders(state: State) -> dict[int, list[str]]:
    """Return who keeps objects alive, by their ids."""
    found: dict[int, list[str]] = defaultdict(list)
    for entry in _entries(state):
        if entry.held:
            found[entry.id].append("driver")
        for id in entry.contained:
            found[id].append(f"object {entry.id:x}")
    for worker in state.workers.values():
        for id in worker.holds:
            found[id].append(f"pid {worker.pid}")
    for task in _unfinished(state):
        for id in {entry.id for _, entry in task.dependencies} | set(task.nested):
            found[id].append(f"argument of {task.name}")
    return found


def _entries(state: State) -> list[ObjectEntry]:
    return [*state.entries.values()]


def _unfinished(state: State) -> list[HubTask]:
    found = (entry.task for entry in _entries(state) if entry.kind is None)
    return [task for task in dict.fromkeys(found) if task is not None]


# -- waits ----------------------------------------------------------------------------------------


def awaited(state: State, ids: Sequence[int]) -> list[Row]:
    """Return what makes each of these objects, as far as that is known, and how far it is."""
    rows, states = [], TaskStates()
    for id in ids:
        entry = state.entries.get(id)
        task = entry.task if entry is not None else None
        rows.append(
            {
                "object_id": f"{id:056x}",
                "name": task.name if task is not None else None,
                "state": states.of(task) if task is not None else None,
                "pid": (task.worker.pid or None) if task is not None and task.worker else None,
            }
        )
    return rows
