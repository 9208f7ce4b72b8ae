"""The lives of actors: created, called, restarted, ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from skate import exceptions
from skate._core import serialization
from skate.engine.local.hub import actors, errors
from skate.engine.local.hub.inventory import actor_row
from skate.engine.local.hub.reachability import unreachable_actors
from skate.engine.local.objects import FAILED, ObjectEntry

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.counts import Counts
    from skate.engine.local.hub.dispatch import Dispatch
    from skate.engine.local.hub.ports import Ports
    from skate.engine.local.hub.processes import Processes
    from skate.engine.local.hub.scheduler import Scheduler
    from skate.engine.local.hub.state import SessionFacts, State
    from skate.engine.local.hub.tasks import TaskLifecycle
    from skate.engine.local.hub.values import Values
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.hub.workers import WorkerProcess

_SEARCH_SECONDS = 0.5  # after an actor has lost a hold, until unreachable ones are looked for
_SEARCH_SHARE = 0.02  # of the time may go into looking for them


class ActorLifecycle:
    """What happens to actors; `actors.HubActor` keeps the state of each."""

    def __init__(
        self,
        ports: Ports,
        info: SessionFacts,
        state: State,
        values: Values,
        counts: Counts,
        scheduler: Scheduler,
        dispatch: Dispatch,
        tasks: TaskLifecycle,
        processes: Processes,
    ) -> None:
        self._ports = ports
        self._info = info
        self._state = state
        self._actors = state.actors
        self._values = values
        self._counts = counts
        self._scheduler = scheduler
        self._dispatch = dispatch
        self._tasks = tasks
        self._processes = processes
        self._will_search = False
        self._search_pause = _SEARCH_SECONDS

    def create(self, actor: HubActor) -> None:
        """Start an actor whose name is free."""
        self._actors[actor.id] = actor
        actor.entry = self._counts.entry(actor.id)
        if actor.name is not None:
            self._state.names[actor.key] = actor
        if actor.options.detached:
            self._counts.add((actor.id,))
        self._tasks.submit(actor.creation)

    def check_pending_calls(self, actor_id: int, caller: int = 0) -> None:
        """Raise PendingCallsLimitExceeded if this process must not call the actor now."""
        actor = self._actors.get(actor_id)
        if actor is None or actor.unfinished is None:
            return
        limit, unfinished = actor.options.max_pending_calls, actor.unfinished.get(caller, 0)
        if unfinished >= limit:
            raise exceptions.PendingCallsLimitExceeded(
                f"{actor.class_name} has {unfinished} unfinished calls from here, and "
                f"max_pending_calls={limit}"
            )

    def call(self, actor_id: int, task: HubTask) -> None:
        """Call a method of an actor, which may be dead by now."""
        actor = self._actors.get(actor_id)
        if actor is None:
            self._tasks.refuse(task, self._why_dead(actor_id))
            return
        task.actor = actor
        actor.entry.count += 1  # a call keeps its actor alive
        if task.dependencies or task.nested:
            self._tasks.keep_arguments(task)
            if task.cancelled:
                actor.count(task, 1)  # as it will be counted off when the task is closed
                return
        self._dispatch.send_calls(actor, actor.add_call(task))

    # -- ends ----------------------------------------------------------------------------------

    def construction_failed(self, actor: HubActor, error: Packed) -> None:
        """End an actor whose constructor has raised."""
        actor.stop_reason = errors.CONSTRUCTOR_FAILED
        died = exceptions.ActorDiedError(serialization.loads(error))
        self._end(actor, errors.packed(died))

    def _end(self, actor: HubActor, error: Packed) -> bool:
        """Declare an actor dead, and retire its process; False if it has none."""
        worker = actor.worker
        self.declare_dead(actor, error)
        if worker is not None:
            self._processes.retire(worker)
        return worker is not None

    def _terminate(self, actor: HubActor) -> None:
        """End an actor whose last handle is gone, with nothing under way."""
        if actor.state != actors.DEAD:
            actor.stop_reason = errors.UNREACHABLE
            error = errors.packed(errors.actor_died(actor, errors.UNREACHABLE))
            if not self._end(actor, error):
                self._scheduler.withdraw(actor.creation)

    def kill(self, actor: HubActor, no_restart: bool) -> None:
        """End the process of an actor, and the actor itself if it is not to be restarted."""
        if actor.state == actors.DEAD:
            return
        if no_restart:
            self._stop(actor, errors.KILLED)
        elif actor.worker is not None:
            self._processes.kill(actor.worker)

    def lose_creator(self, worker: WorkerProcess) -> None:
        """End the actors that a process had made which was killed: whoever does its work again
        makes them again. One that ended as it should may have made them for others."""
        if errors.ended_as_it_should(worker):
            return
        reason = errors.creator_died(worker)
        for actor in list(self._actors.values()):
            if actor.creation.owner is worker and not actor.options.detached:
                self._stop(actor, reason)

    def _stop(self, actor: HubActor, reason: actors.StopReason) -> None:
        """End an actor and its process, for good."""
        actor.stop_reason = reason
        if actor.worker is not None:
            self._processes.kill(actor.worker)
            self.lose(actor, actor.worker, reason.why)
        else:
            self._scheduler.withdraw(actor.creation)
            self.declare_dead(actor, errors.packed(errors.actor_died(actor, reason)))

    def on_exiting(self, worker: WorkerProcess, wanted: bool, why: str, call: int) -> None:
        """Note that an actor ends itself: as it wants to, by exit_actor(), or by a crash."""
        worker.last_words = why
        if wanted and worker.actor is not None:
            worker.last_call = call
            worker.actor.stop_reason = actors.StopReason(why, "INTENDED_USER_EXIT")

    def lose(self, actor: HubActor, worker: WorkerProcess, reason: str) -> None:
        """Restart an actor whose process is gone, or declare it dead."""
        calls = [task for task in worker.in_flight.values() if task.method]
        worker.in_flight.clear()
        evicted = None if worker.evicted is None else worker.evicted.error
        if worker.failure is None and actor.may_restart():
            for task in actor.restarting(calls):
                unavailable = evicted or errors.actor_unavailable(actor, reason, task)
                self._tasks.fail(task, errors.packed(unavailable))
            self._scheduler.enqueue(actor.creation)
            return
        died = worker.failure or errors.actor_died(
            actor, actor.stop_reason or actors.StopReason(reason)
        )
        error = errors.packed(died)
        lost = error if evicted is None else errors.packed(evicted)
        for task in calls:
            # What has ended the actor as it was to do has no value, and has not failed.
            self._tasks.fail(task, lost, as_failed=task.id != worker.last_call)
        self.declare_dead(actor, error)

    def declare_dead(self, actor: HubActor, error: Packed) -> None:
        """Fail all calls of an actor, and forget it."""
        if actor.state == actors.DEAD:
            return
        worker = actor.worker
        in_flight = worker.in_flight if worker is not None else {}
        sent = [task for task in in_flight.values() if task.method]
        row = {**actor_row(self._info, actor), "state": actors.DEAD}  # with its last process
        unsent = actor.died(error)
        told = actor.entry.read = bool(unsent or sent)  # by the calls
        for task in unsent:
            self._tasks.fail(task, error)
        for task in sent:
            if in_flight.pop(task.id, None) is not None:
                self._tasks.fail(task, error)
        state = self._state
        state.deaths[actor.id] = error
        state.ended_actors.append((row, error))
        state.gone_actors += 1
        if actor.id in state.entries or not told:
            self._values.complete(actor.id, FAILED, error)
        if state.names.get(actor.key) is actor:
            del state.names[actor.key]
        self._tasks.let_go_of_arguments(actor.creation)
        if actor.options.detached:
            self._counts.drop((actor.id,))
        self._actors.pop(actor.id, None)

    # -- who is needed -------------------------------------------------------------------------

    def unwanted(self, entry: ObjectEntry) -> None:
        """End the actor behind an object that nobody can ask for any more, if there is one."""
        task = entry.task
        if task is not None and task.actor is not None and not task.method:
            self._terminate(task.actor)
            self._state.deaths.pop(entry.id, None)

    def less_wanted(self, entry: ObjectEntry) -> None:
        """Look for actors that only each other keep, soon, and once for many."""
        if not self._will_search and not entry.held and entry.id in self._actors:
            self._will_search = True
            self._ports.call_later(self._search_pause, self._end_unreachable)

    def _end_unreachable(self) -> None:
        start = time.perf_counter()
        self._will_search = False
        for actor in unreachable_actors(self._actors.values(), self._state.entries):
            self._terminate(actor)
        taken = time.perf_counter() - start
        self._search_pause = max(_SEARCH_SECONDS, taken / _SEARCH_SHARE)

    def why_lost(self, actor_id: int) -> Packed:
        """Return the error of a call that was under way when its actor's process died."""
        actor = self._actors.get(actor_id)
        if actor is None:
            return self._why_dead(actor_id)
        return errors.packed(errors.actor_unavailable(actor, "its process died"))

    def _why_dead(self, actor_id: int) -> Packed:
        entry = self._state.entries.get(actor_id)
        if entry is not None:
            entry.read = True  # the call tells it
        return self._state.deaths.get(actor_id) or errors.packed(exceptions.ActorDiedError())
