"""The errors that the hub gives to tasks, with what it knows."""

from __future__ import annotations

import errno
import os
import resource
import signal
from typing import TYPE_CHECKING

from skate import exceptions
from skate._core import serialization
from skate._core.errors import argument_error
from skate.engine.local.hub.actors import StopReason
from skate.engine.local.hub.resources import Demand, ResourcePool, from_units

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.scheduler import Scheduler
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.hub.workers import WorkerProcess


def packed(error: BaseException) -> Packed:
    """Return the error as it travels."""
    return serialization.dumps(error).packed()


def hex_id(id: int) -> str:
    return id.to_bytes(16, "big").hex()


def cancelled(task: HubTask) -> exceptions.TaskCancelledError:
    return exceptions.TaskCancelledError(hex_id(task.id), f"It ran {task.name}.")


def argument_failed(task: HubTask, error: Packed) -> Packed:
    """Return the error, packed, for a task with an argument that is this packed error."""
    cause = serialization.loads(error)
    if task.actor is not None and not task.method:
        return packed(exceptions.ActorDiedError(cause))
    return packed(argument_error(cause, task.name))


def crashed(worker: WorkerProcess, task: HubTask) -> exceptions.SkateError:
    if worker.never_started:
        return not_started(task, worker.never_started)
    tries = f" It was tried {task.attempt + 1} times." if task.attempt else ""
    what = f"The worker died unexpectedly while it ran {task.name}"
    text = f"{what}: {how_it_ended(worker)}.{tries}"
    return exceptions.WorkerCrashedError(text, pid=worker.pid, exitcode=exitcode(worker))


def not_started(task: HubTask, reason: str) -> exceptions.SkateError:
    if task.actor is not None:
        return actor_died(task.actor, StopReason(reason))
    return exceptions.WorkerCrashedError(f"{task.name} could not be run: {reason}")


def no_process(why: str) -> str:
    """Return a sentence without its full stop."""
    return f"no process could be started for it: {why}"


def system_said(error: OSError) -> str:
    """Tell why no process can be had, and what may help; without its full stop."""
    number = error.errno or 0
    said = os.strerror(number)
    if number == errno.EMFILE:
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{said}. {most} may be open in this process, one per worker; see `ulimit -n`"
    if number == errno.EAGAIN:
        return f"{said}. The limit of processes may be reached; see `ulimit -u`"
    return said


def how_it_ended(worker: WorkerProcess) -> str:
    """Return a sentence without its full stop."""
    if worker.never_started or worker.last_words:
        return worker.never_started or worker.last_words
    if worker.evicted is not None:
        return str(worker.evicted.error)
    code = exitcode(worker)
    who = f"the worker (pid={worker.pid})"
    if code is None:
        return f"{who} died"
    if code < 0:
        return f"{who} was killed by {_signal_name(-code)}"
    return f"{who} exited with code {code}"


def exit_reason(worker: WorkerProcess) -> StopReason:
    """Return why a process has ended, or was ended, with Ray's word for such an end."""
    if worker.evicted is not None:
        return StopReason(str(worker.evicted.error), "NODE_OUT_OF_MEMORY")
    if worker.actor is not None and worker.actor.stop_reason is not None:
        return worker.actor.stop_reason
    if worker.ending is not None and any(task.cancelled for task in worker.in_flight.values()):
        return CANCELLED
    if worker.ending == NOT_NEEDED:
        return StopReason("it was idle, and not needed any more", "INTENDED_SYSTEM_EXIT")
    if worker.ending == MAX_CALLS:
        return StopReason("its function was called max_calls times", "INTENDED_USER_EXIT")
    by_oom = exitcode(worker) == -signal.SIGKILL and not worker.last_words
    hint = "; the system's OOM killer does that when memory runs out" if by_oom else ""
    return StopReason(how_it_ended(worker) + hint)


def exitcode(worker: WorkerProcess) -> int | None:
    return None if worker.status is None else os.waitstatus_to_exitcode(worker.status)


def ended_as_it_should(worker: WorkerProcess) -> bool:
    """Return whether the process was asked to end, or has said that it would, and has done so.
    After `os._exit(0)` in the middle of its work it has not."""
    announced = worker.ending == MAX_CALLS or bool(worker.last_words)
    return worker.ending == NOT_NEEDED or (worker.status == 0 and announced)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# Why workers are ended (`WorkerProcess.ending`).
NOT_NEEDED = "not needed any more"
MAX_CALLS = "max_calls"

# Why actors and other workers end that were meant to.
KILLED = StopReason("it was killed by `skate.kill`", "INTENDED_SYSTEM_EXIT")
UNREACHABLE = StopReason("all handles to it are gone", "INTENDED_SYSTEM_EXIT")
GROUP_REMOVED = StopReason("its placement group was removed", "INTENDED_SYSTEM_EXIT")
CANCELLED = StopReason("its task was cancelled by `skate.cancel` with force", "INTENDED_USER_EXIT")
CONSTRUCTOR_FAILED = StopReason(
    "its constructor failed: an exception in the initialization method", "USER_ERROR"
)


def spoken(why: str) -> str:
    """Return it as the program knows the library: `ray.kill`, where it imports skate by that
    name."""
    return why.replace("`skate.", f"`{exceptions.library_name()}.")


def creator_died(worker: WorkerProcess) -> StopReason:
    """Return why actors end that a process had made."""
    return StopReason(
        f"its owner has died: {how_it_ended(worker)}, which had created it (lifetime='detached' "
        "lets an actor outlive its creator)",
        "INTENDED_SYSTEM_EXIT",
    )


def actor_died(actor: HubActor, reason: StopReason) -> exceptions.ActorDiedError:
    return exceptions.ActorDiedError(
        f"The actor is dead because {spoken(reason.why)} "
        f"(class_name: {actor.class_name}, actor_id: {hex_id(actor.id)})",
        actor_id=hex_id(actor.id),
        exit_type=reason.exit_type,
    )


def actor_unavailable(
    actor: HubActor, reason: object, call: HubTask | None = None
) -> exceptions.ActorUnavailableError:
    tries = ""
    if call is not None and call.attempt:
        tries = f"; {call.name} was tried {call.attempt + 1} times"
    return exceptions.ActorUnavailableError(
        f"{actor.class_name} is being restarted, because {reason}{tries}", hex_id(actor.id)
    )


def group_removed(task: HubTask) -> exceptions.SkateError:
    text = f"the placement group of {task.name} was removed"
    if task.actor is not None:
        return exceptions.ActorPlacementGroupRemoved(text)
    return exceptions.TaskPlacementGroupRemoved(text)


def ended_with_group(task: HubTask) -> exceptions.SkateError:
    """Return the error of a task that ran: it is not run again, or would be, where there is no
    place for it."""
    if task.actor is None and task.plan.retries == 0:
        return exceptions.WorkerCrashedError(
            f"the worker of {task.name} was ended, because its placement group was removed"
        )
    return group_removed(task)


def _how_to_declare(demand: Demand, machine: ResourcePool) -> str:
    """Name arguments of init() that would make the demand possible."""
    lacking = {
        name: amount
        for name, amount in from_units(demand).items()
        if machine.total.get(name, 0) < demand[name]
    }
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "_memory"}
    known = [f"{named[name]}={lacking[name]:g}" for name in lacking if name in named]
    custom = {
        name: amount
        for name, amount in lacking.items()
        if name not in named and not name.startswith("label_selector=")
    }
    known += [f"resources={custom}"] if custom else []
    return ", ".join(known or ["labels={...}"])


def what_there_is(demand: Demand, machine: ResourcePool) -> str:
    """Return what a machine has in all, without its names, and the way out."""
    total = {
        name: amount
        for name, amount in from_units(machine.total).items()
        if name in demand or not name.startswith("node:")
    }
    return (
        f"There is {total} in total. Ask for less, or say that there is more: "
        f"skate.init({_how_to_declare(demand, machine)})"
    )


def unschedulable(task: HubTask, scheduler: Scheduler) -> exceptions.SkateError:
    shape = task.plan.shape
    assert shape is not None
    if shape.group is None:
        text = (
            f"{task.name} asks for {from_units(shape.demand)}, and {shape.problem}. "
            f"{what_there_is(shape.demand, scheduler.machine)}"
        )
    elif shape.group.state == "INFEASIBLE":
        text = f"{task.name} waits for {shape.problem}"
    else:
        return group_removed(task)
    if task.actor is not None:
        return exceptions.ActorUnschedulableError(text)
    return exceptions.TaskUnschedulableError(text)
