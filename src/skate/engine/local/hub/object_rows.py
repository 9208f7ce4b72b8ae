"""Objects, row by row, with the keys of Ray's state API."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from skate.engine.local.hub.task_states import TaskStates
from skate.engine.local.objects import FAILED, INLINE, STORED

if TYPE_CHECKING:
    from skate.engine.local.hub.state import State
    from skate.engine.local.objects import ObjectEntry

Row = dict[str, Any]

_UNKNOWN_SITE = "disabled"  # as in Ray, where nobody notes the lines that make objects


def all_object_rows(state: State) -> list[Row]:
    """Return the objects, each with the process that holds it."""
    workers = {id: worker.pid for worker in state.workers.values() for id in worker.holds}
    awaited = {
        argument.id
        for entry in [*state.entries.values()]
        if entry.kind is None and entry.task is not None
        for _, argument in entry.task.dependencies
    }
    states = TaskStates()
    return [_held_row(entry, workers, awaited, states) for entry in [*state.entries.values()]]


def _held_row(
    entry: ObjectEntry, workers: dict[int, int], awaited: set[int], states: TaskStates
) -> Row:
    by_worker = not entry.held and entry.id in workers
    reference = "LOCAL_REFERENCE" if entry.held or by_worker else "CAPTURED_IN_OBJECT"
    return {
        **object_row(entry, states),
        "attempt_number": entry.task.attempt if entry.task is not None else 0,
        "reference_type": "USED_BY_PENDING_TASK" if entry.id in awaited else reference,
        "call_site": _UNKNOWN_SITE,
        "type": "WORKER" if by_worker else "DRIVER",
        "pid": workers[entry.id] if by_worker else os.getpid(),
        "ip": "127.0.0.1",
    }


def object_row(entry: ObjectEntry, states: TaskStates) -> Row:
    """Return what is known of an object."""
    status = "FINISHED" if entry.kind != FAILED else "FAILED"
    if entry.kind is None:
        status = states.of(entry.task) if entry.task is not None else "NIL"
    return {
        "object_id": f"{entry.id:056x}",
        "object_size": _size(entry),
        "spilled": entry.kind == STORED and str(entry.data[0]).startswith("d"),
        "task_status": status,
        "reference_count": entry.count,
    }


def _size(entry: ObjectEntry) -> int:
    if entry.kind == STORED:
        return int(entry.data[1])
    if isinstance(entry.data, tuple) and entry.kind in (INLINE, FAILED):  # with its buffers
        return sum(map(len, entry.data))
    return len(entry.data) if isinstance(entry.data, (bytes, bytearray, memoryview)) else 0
