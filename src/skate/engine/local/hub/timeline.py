"""What ran when, as events of Chrome's trace format, which Perfetto reads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from skate.engine.local.hub import inventory
from skate.engine.local.hub.work import TaskRun, is_listed

if TYPE_CHECKING:
    from skate.engine.local.hub.state import State

Event = dict[str, Any]


def events(state: State) -> list[Event]:
    """Return the tasks that have ended and the spans that the program has named, a row per
    process; before them, the names of the rows."""
    found = [*_tasks(state), *_spans(state)]
    driver = os.getpid()
    rows = sorted({event["tid"] for event in found})
    names = [_name("process_name", driver, 0, f"skate, driver {driver}")]
    for pid in rows:
        role = "driver" if pid == driver else "worker"
        names.append(_name("thread_name", driver, pid, f"{role} {pid}"))
    return names + found


def _tasks(state: State) -> list[Event]:
    return [
        {
            "cat": "task",
            "name": inventory.called(run.name, run.method, run.actor != 0),
            "ph": "X",
            "pid": os.getpid(),
            "tid": run.pid,
            "ts": run.end * 1e6 - run.micros,
            "dur": run.micros,
            "args": {"task_id": f"{run.id:048x}", "failed": run.failed},
        }
        for run in map(TaskRun._make, state.runs)
        if run.micros and is_listed(run.asked)
    ]


def _spans(state: State) -> list[Event]:
    return [
        {
            "cat": "span",
            "name": name,
            "ph": "X",
            "pid": os.getpid(),
            "tid": pid,
            "ts": start * 1e6,
            "dur": micros,
            "args": extra,
        }
        for name, start, micros, extra, pid in state.spans
    ]


def _name(kind: str, pid: int, tid: int, text: str) -> Event:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": text}}
