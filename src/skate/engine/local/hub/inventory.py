"""What there is, row by row, with the keys of Ray's state API."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate import exceptions
from skate._core import serialization
from skate.engine.local.hub import actors, errors
from skate.engine.local.hub.resources import from_units
from skate.engine.local.hub.task_states import RUNNING, TaskStates
from skate.engine.local.hub.work import TaskRun, is_listed
from skate.engine.local.objects import INLINE

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.state import SessionFacts, State
    from skate.engine.local.hub.work import Asked, HubTask
    from skate.engine.local.hub.workers import WorkerProcess

Row = dict[str, Any]

_ACTOR_STATES = {actors.PENDING: "PENDING_CREATION", actors.STARTING: "PENDING_CREATION"}

# Ray's words for why tasks fail, by the class of the error.
_RAISED = "TASK_EXECUTION_EXCEPTION"
_ERROR_TYPES: dict[type, str] = {
    exceptions.WorkerCrashedError: "WORKER_DIED",
    exceptions.ActorDiedError: "ACTOR_DIED",
    exceptions.ActorUnavailableError: "ACTOR_UNAVAILABLE",
    exceptions.TaskCancelledError: "TASK_CANCELLED",
    exceptions.TaskUnschedulableError: "TASK_UNSCHEDULABLE_ERROR",
    exceptions.ActorUnschedulableError: "ACTOR_UNSCHEDULABLE_ERROR",
    exceptions.TaskPlacementGroupRemoved: "TASK_PLACEMENT_GROUP_REMOVED",
    exceptions.ActorPlacementGroupRemoved: "ACTOR_PLACEMENT_GROUP_REMOVED",
    exceptions.RuntimeEnvSetupError: "RUNTIME_ENV_SETUP_FAILED",
    exceptions.OutOfMemoryError: "OUT_OF_MEMORY",
}


def rows(info: SessionFacts, state: State, kind: str) -> list[Row]:
    """Return all rows of one of the kinds below."""
    make: dict[str, Callable[[SessionFacts, State], list[Row]]] = {
        "actors": _actors,
        "tasks": _tasks,
        "workers": _workers,
        "live_workers": _live_workers,
        "runtime_envs": _runtime_envs,
    }
    return make[kind](info, state)


# -- actors -------------------------------------------------------------------------------------


def _actors(info: SessionFacts, state: State) -> list[Row]:
    ended = [ended_actor_row(row, error) for row, error in state.ended_actors]
    return [*ended, *(actor_row(info, actor) for actor in state.actors.values())]


def actor_row(info: SessionFacts, actor: HubActor) -> Row:
    worker = actor.worker
    state = _ACTOR_STATES.get(actor.state, actor.state)
    return {
        "actor_id": _hex(actor.id, 16),
        "class_name": actor.qualified_name,
        "state": "DEPENDENCIES_UNREADY" if actor.creation.missing else state,
        "job_id": info.job_id,
        "name": actor.name or "",
        "node_id": info.node_id if worker is not None else None,
        "pid": worker.pid if worker is not None else 0,
        "ray_namespace": actor.key[0],
        "required_resources": _demand(actor.creation),
        "death_cause": None,
        "is_detached": actor.options.detached,
        "placement_group_id": _group_id(actor.creation.plan.asked),
        "num_restarts": actor.restarts,
        "repr_name": _repr_name(actor),
    }


def _repr_name(actor: HubActor) -> str:
    """Return what its own `__repr__` said, which is what its construction returned."""
    entry = actor.entry
    return str(serialization.loads(entry.data) or "") if entry.kind == INLINE else ""


def ended_actor_row(row: Row, error: Packed) -> Row:
    """Return the row of an actor that is gone, with the reason."""
    cause = {"error_message": str(serialization.loads(error))}
    return {**row, "death_cause": {"actor_died_error_context": cause}}


# -- tasks --------------------------------------------------------------------------------------


def _tasks(info: SessionFacts, state: State) -> list[Row]:
    """Return those that have not ended, then the others, the last one first. (Calls from one
    worker to another are known to these alone.)"""
    going_on = [task for task in state.unfinished() if is_listed(task.plan.asked)]
    states = TaskStates()
    rows = [_task_row(info, task, states) for task in going_on]
    failures, ended = dict(state.failures), map(TaskRun._make, reversed(state.runs))
    rows += [
        _ended_row(info, run, failures.get((run.id, run.attempt)))
        for run in ended
        if is_listed(run.asked)
    ]
    said = {row["actor_id"]: row["repr_name"] for row in _actors(info, state)}
    for row in rows:
        name, method = row["func_or_class_name"], row["func_or_class_name"].rpartition(".")[2]
        if row["type"] == "ACTOR_TASK" and row["name"] == name and said.get(row["actor_id"]):
            row["name"] = f"{said[row['actor_id']]}.{method}"
    return rows


def _ended_row(info: SessionFacts, run: TaskRun, error: Packed | None) -> Row:
    ran = run.worker != 0
    kind = "ACTOR_CREATION_TASK" if run.actor == run.id else "NORMAL_TASK"
    return {
        "task_id": _hex(run.id, 24),
        "attempt_number": run.attempt,
        "name": run_name(run),
        "state": "FAILED" if run.failed else "FINISHED",
        "job_id": info.job_id,
        "actor_id": _hex(run.actor, 16) if run.actor else None,
        "type": "ACTOR_TASK" if run.method else kind,
        "func_or_class_name": _body_of(run),
        "parent_task_id": _hex(run.parent, 24),
        "node_id": info.node_id if ran else None,
        "worker_id": _worker_id(run.worker) if ran else None,
        "worker_pid": run.pid if ran else None,
        **(failure_row(error) if run.failed else {"error_type": None, "error_message": None}),
        "language": "PYTHON",
        "required_resources": from_units(run.asked[0]) if run.asked is not None else {},
        "placement_group_id": _group_id(run.asked),
        **_times(run.made, run.end - run.micros / 1e6 if ran else None, run.end, run.failed),
    }


def _times(made: float, start: float | None, end: float | None, failed: bool) -> Row:
    """Return when a task was submitted, began and ended, as columns and as events."""
    ended = "FAILED" if failed else "FINISHED"
    known = {"PENDING_ARGS_AVAIL": made, "RUNNING": start, ended: end}
    shown = {state: int(seconds * 1000) for state, seconds in known.items() if seconds is not None}
    return {
        "creation_time_ms": shown["PENDING_ARGS_AVAIL"],
        "start_time_ms": shown.get("RUNNING"),
        "end_time_ms": shown.get(ended),
        "events": [{"state": state, "created_ms": ms} for state, ms in shown.items()],
    }


def _group_id(asked: Asked | None) -> str | None:
    return _hex(asked[1], 18) if asked is not None and asked[1] else None


def run_name(run: TaskRun) -> str:
    """Return what a task that has ended is called."""
    given = run.given_name if run.actor != run.id else ""
    return given or _body_of(run)


def _body_of(run: TaskRun) -> str:
    return called(run.name, run.method, run.actor != 0) or run.method


def failure_row(error: Packed | None) -> Row:
    """Return what is said of a task that failed; of the last thousand, why."""
    unknown = {"error_type": _RAISED, "error_message": None}
    if error is None:
        return unknown
    try:
        failure = serialization.loads(error)
    except Exception as problem:
        return {**unknown, "error_message": f"it cannot be unpickled: {problem}"}
    interrupted = isinstance(getattr(failure, "cause", None), exceptions.TaskCancelledError)
    kinds = type(failure.cause if interrupted else failure).__mro__
    kind = next((_ERROR_TYPES[one] for one in kinds if one in _ERROR_TYPES), _RAISED)
    return {"error_type": kind, "error_message": str(failure)}


def _task_row(info: SessionFacts, task: HubTask, states: TaskStates) -> Row:
    worker, state = task.worker, states.of(task)
    return {
        "task_id": _hex(task.id, 24),
        "attempt_number": task.attempt,
        "name": task_name(task),
        "state": state,
        "job_id": info.job_id,
        "actor_id": _hex(task.actor.id, 16) if task.actor is not None else None,
        "type": _task_type(task),
        "func_or_class_name": _body_of_task(task),
        "parent_task_id": _hex(task.parent, 24),
        "node_id": info.node_id if worker is not None else None,
        "worker_id": _worker_id(worker.number) if worker is not None else None,
        "worker_pid": (worker.pid or None) if worker is not None else None,
        "error_type": None,
        "error_message": None,
        "language": "PYTHON",
        "required_resources": _demand(task),
        "placement_group_id": _group_id(task.plan.asked),
        **_times(task.made, task.sent if state == RUNNING else None, None, False),
    }


def task_name(task: HubTask) -> str:
    """Return what a task is called that has not ended."""
    given = (task.plan.settings or {}).get("name") if task.actor is None or task.method else None
    return given or _body_of_task(task)


def _body_of_task(task: HubTask) -> str:
    body = task.actor.class_name if task.actor is not None else ""
    body = task.function.name if task.function is not None else body
    return called(body, task.method, task.actor is not None)


def called(name: str, method: str, of_actor: bool) -> str:
    """Return the name of a function, a method, or the constructor of an actor."""
    return f"{name}.{method or '__init__'}" if of_actor else name


def _task_type(task: HubTask) -> str:
    if task.method:
        return "ACTOR_TASK"
    return "ACTOR_CREATION_TASK" if task.actor is not None else "NORMAL_TASK"


def _demand(task: HubTask) -> dict[str, float]:
    return from_units(task.plan.shape.demand) if task.plan.shape is not None else {}


# -- processes ----------------------------------------------------------------------------------


def _workers(info: SessionFacts, state: State) -> list[Row]:
    """Return the driver, the workers, and those that have ended."""
    return [_driver_row(info), *_live_workers(info, state), *state.ended_workers]


def _driver_row(info: SessionFacts) -> Row:
    return {
        **_process_row(info, 0, os.getpid(), info.began),
        "worker_id": info.driver_id,
        "worker_type": "DRIVER",
        "state": "BUSY",
        "runs": [],
    }


def _live_workers(info: SessionFacts, state: State) -> list[Row]:
    return [_worker_row(info, worker) for worker in state.workers.values()]


def _worker_row(info: SessionFacts, worker: WorkerProcess) -> Row:
    states, tasks = TaskStates(), worker.in_flight.values()
    return {
        **_process_row(info, worker.number, worker.pid or None, worker.began),
        "worker_type": "WORKER",
        "state": _worker_state(worker),
        "runs": [task.name for task in tasks if states.of(task) == RUNNING],
    }


def _process_row(info: SessionFacts, number: int, pid: int | None, began: float) -> Row:
    return {
        "worker_id": _worker_id(number),
        "is_alive": True,
        "exit_type": None,
        "exit_detail": None,
        "node_id": info.node_id,
        "ip": "127.0.0.1",
        "pid": pid,
        "worker_launch_time_ms": int(began * 1000),
        "start_time_ms": int(began * 1000),
        "end_time_ms": 0,
    }


def ended_worker_row(info: SessionFacts, worker: WorkerProcess) -> Row:
    """Return the row of a process that has just ended, with the reason."""
    reason = errors.exit_reason(worker)
    return {
        **_worker_row(info, worker),
        "is_alive": False,
        "exit_type": reason.exit_type,
        "exit_detail": errors.spoken(reason.why),
        "end_time_ms": int(time.time() * 1000),
        "state": "ENDED",
        "runs": [],
    }


def _worker_state(worker: WorkerProcess) -> str:
    if worker.pid <= 0:
        return "STARTING"
    if worker.ending:
        return "ENDING"
    if worker.blocked:
        return "WAITING"
    return "BUSY" if worker.in_flight else "IDLE"


# -- environments ---------------------------------------------------------------------------------


def _runtime_envs(info: SessionFacts, state: State) -> list[Row]:
    """Return the environment of the session, and those that tasks and actors use now."""
    works = [*state.unfinished(), *(actor.creation for actor in state.actors.values())]
    settings = [task.plan.settings or {} for task in dict.fromkeys(works)]
    uses = Counter(one["runtime_env"] for one in settings if "runtime_env" in one)
    envs = [(serialization.loads(packed), count) for packed, count in uses.items()]
    if info.runtime_env and all(env != info.runtime_env for env, _ in envs):
        envs.insert(0, (dict(info.runtime_env), 0))
    return [
        {
            "runtime_env": env,
            "success": True,
            "creation_time_ms": 0.0,
            "node_id": info.node_id,
            "ref_cnt": count,
            "error": None,
        }
        for env, count in envs
    ]


def _worker_id(number: int) -> str:
    return _hex(number, 28)


def _hex(id: int, size: int) -> str:
    return id.to_bytes(size, "big").hex()
