"""What has happened in a session since somebody last looked, for those who look again and again.

Tasks that ended, errors and actors that are gone are numbered: who has seen so many is told the
rest, of which tasks that ended well may be left out if they are many. What there is now is told as
a whole. `gathered` is quick, because the engine's lock is held; `told` takes its time without it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from skate.engine.local.hub import inventory
from skate.engine.local.hub.task_states import RUNNING, TaskStates
from skate.engine.local.hub.work import TaskRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skate._core.serialization import Packed
    from skate.engine.local.hub.hub import Hub
    from skate.engine.local.hub.inventory import Row
    from skate.engine.local.hub.state import SessionFacts, State
    from skate.engine.local.hub.work import HubTask, TaskAttempt

_MOST_TASKS = 2_000  # that ended well, of one answer
_MOST_FAILURES = 100
_MOST_RUNNING = 500
_MOST_ACTORS = 1_000
_MOST_ERROR_CHARACTERS = 20_000


class Gathered(NamedTuple):
    """What was taken from the tables of the hub."""

    facts: Row
    runs: Sequence[tuple[Any, ...]]
    failures: Sequence[tuple[TaskAttempt, Packed]]
    ended_actors: Sequence[tuple[Row, Packed]]


def gathered(info: SessionFacts, hub: Hub, ended: int, failed: int, gone: int) -> Gathered:
    """Take what is new from the tables.

    Args:
        info: What was said of the session when it began.
        hub: Of the session.
        ended: How many ended tasks the asker has been told of.
        failed: How many errors.
        gone: How many actors that are gone.
    """
    state = hub.state
    total = hub.requests.answers["cluster_resources"]()
    running = [*islice(_running(state), _MOST_RUNNING)]
    facts: Row = {
        "ended": state.ended_tasks,
        "failed": state.remembered_failures,
        "gone": state.gone_actors,
        "queued": hub.scheduler.queued,
        "sent": sum(len(worker.in_flight) for worker in state.workers.values()),
        "resources": total,
        "available": hub.requests.answers["available_resources"](),
        "objects": len(state.entries),
        "workers": [_worker(row) for row in inventory.rows(info, state, "live_workers")],
        "actors": [
            inventory.actor_row(info, actor)
            for actor in islice(state.actors.values(), _MOST_ACTORS)
        ],
        "running": [_task(task) for task in running],
    }
    return Gathered(
        facts,
        _last(state.runs, state.ended_tasks - ended),
        _last(state.failures, min(state.remembered_failures - failed, _MOST_FAILURES)),
        _last(state.ended_actors, state.gone_actors - gone),
    )


def _last(items: Any, count: int) -> list[Any]:
    return [*islice(reversed(items), max(0, count))][::-1]


def _running(state: State) -> Iterator[HubTask]:
    states = TaskStates()
    for worker in state.workers.values():
        for task in worker.in_flight.values():
            if states.of(task) == RUNNING:
                yield task


def _worker(row: Row) -> Row:
    return {name: row[name] for name in ("pid", "state", "runs")}


def _task(task: HubTask) -> Row:
    return {
        "id": f"{task.id:x}",
        "name": inventory.task_name(task),
        "pid": task.worker.pid if task.worker is not None else None,
        "actor": task.actor.class_name if task.actor is not None else None,
        "attempt": task.attempt,
    }


def told(found: Gathered) -> Row:
    """Return it as an answer.

    Tasks are lists: name, process, when it ended, microseconds, whether it failed.
    """
    runs = [TaskRun._make(run) for run in found.runs]
    failed = {(run.id, run.attempt): run for run in runs if run.failed}
    kept = [run for run in runs if run.failed][-_MOST_TASKS:]
    if room := _MOST_TASKS - len(kept):
        kept += [run for run in runs if not run.failed][-room:]
    return {
        **found.facts,
        "tasks": [
            [inventory.run_name(run), run.pid, run.end, run.micros, run.failed] for run in kept
        ],
        "failures": [_failure(key[0], error, failed.get(key)) for key, error in found.failures],
        "ended_actors": [inventory.ended_actor_row(row, why) for row, why in found.ended_actors],
    }


def _failure(id: int, error: Packed, run: TaskRun | None) -> Row:
    row = inventory.failure_row(error)
    text = row["error_message"] or ""
    if len(text) > _MOST_ERROR_CHARACTERS:  # the end of a traceback says what it was
        text = f"…{text[-_MOST_ERROR_CHARACTERS:]}"
    return {
        "task_id": f"{id:x}",
        "name": inventory.run_name(run) if run is not None else None,
        "pid": run.pid if run is not None else None,
        "time": run.end if run is not None else None,
        "error_type": row["error_type"],
        "error_message": text,
    }
