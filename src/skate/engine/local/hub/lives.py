"""The lives of actors: created, called, restarted, ended."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from skate import exceptions
from skate._core import serialization
from skate.engine.local.hub import actors, errors
from skate.engine.local.hub.actors import Actor
from skate.engine.local.hub.inventory import actor_row
from skate.engine.local.hub.memory_guard import MemoryGuard
from skate.engine.local.hub.processes import Processes
from skate.engine.local.hub.reachability import unreachable_actors
from skate.engine.local.hub.scheduler import Scheduler
from skate.engine.local.hub.tasks import Tasks
from skate.engine.local.hub.work import Task
from skate.engine.local.hub.workers import Worker
from skate.engine.local.objects import FAILED, Entry

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine

_ENDED = 1_000  # dead actors remembered
_SEARCH_SECONDS = 0.5  # after an actor has lost a hold, until unreachable ones are looked for
_SEARCH_SHARE = 0.02  # of the time may go into looking for them


class Lives(Tasks):
    """What happens to actors; `actors.Actor` keeps the state of each."""

    def __init__(
        self,
        engine: LocalEngine,
        scheduler: Scheduler,
        processes: Processes,
        guard: MemoryGuard,
    ) -> None:
        super().__init__(engine, scheduler, processes, guard)
        self.actors: dict[int, Actor] = {}
        self.names: dict[tuple[str, str], Actor] = {}
        self.ended: deque[tuple[dict[str, Any], Any]] = deque(maxlen=_ENDED)  # row, error
        self._deaths: dict[int, Any] = {}  # why actors are dead, for as long as handles ask
        self._will_search = False
        self._search_pause = _SEARCH_SECONDS

    def create_actor(self, actor: Actor) -> None:
        """Start an actor whose name is free."""
        self.actors[actor.id] = actor
        actor.entry = self.counts.entry(actor.id)
        if actor.name is not None:
            self.names[actor.key] = actor
        if actor.options.detached:
            self.counts.add((actor.id,))
        self.submit(actor.creation)

    def check_pending_calls(self, actor_id: int, caller: int = 0) -> None:
        """Raise PendingCallsLimitExceeded if this process must not call the actor now."""
        actor = self.actors.get(actor_id)
        if actor is None or actor.unfinished is None:
            return
        limit, unfinished = actor.options.max_pending_calls, actor.unfinished.get(caller, 0)
        if unfinished >= limit:
            raise exceptions.PendingCallsLimitExceeded(
                f"{actor.class_name} has {unfinished} unfinished calls from here, and "
                f"max_pending_calls={limit}"
            )

    def call_actor(self, actor_id: int, task: Task) -> None:
        """Call a method of an actor, which may be dead by now."""
        actor = self.actors.get(actor_id)
        if actor is None:
            self.refuse(task, self._why_dead(actor_id))
            return
        task.actor = actor
        actor.entry.count += 1  # a call keeps its actor alive
        if task.dependencies or task.nested:
            self._arguments_there(task)
            if task.cancelled:
                actor.count(task, 1)  # as `_close` will count it off
                return
        self._send_calls(actor, actor.add_call(task))

    # -- ends -------------------------------------------------------------------------------

    def _construction_failed(self, actor: Actor, error: Any) -> None:
        actor.stop_reason = "its constructor failed"
        cause = serialization.loads(error)
        died = exceptions.ActorDiedError(cause)
        worker = actor.worker
        self._actor_dead(actor, errors.packed(died))
        if worker is not None:
            self.processes.retire(worker)

    def _terminate(self, actor: Actor) -> None:
        """The last handle is gone and nothing is under way."""
        if actor.state != actors.DEAD:
            actor.stop_reason = errors.UNREACHABLE
            worker = actor.worker
            self._actor_dead(actor, errors.packed(errors.actor_died(actor, actor.stop_reason)))
            if worker is not None:
                self.processes.retire(worker)
            else:
                self.scheduler.withdraw(actor.creation)

    def kill_actor(self, actor: Actor, no_restart: bool) -> None:
        if actor.state == actors.DEAD:
            return
        if no_restart:
            actor.stop_reason = errors.KILLED
        if actor.worker is not None:
            self.processes.kill(actor.worker)
            if no_restart:
                self._lose_actor(actor, actor.worker, actor.stop_reason)
        elif no_restart:
            self.scheduler.withdraw(actor.creation)
            self._actor_dead(actor, errors.packed(errors.actor_died(actor, actor.stop_reason)))

    def on_exiting(self, worker: Worker, wanted: bool, why: str) -> None:
        """The actor of a worker ends itself: as it wants to, by exit_actor(), or by a crash."""
        worker.last_words = why
        if wanted and worker.actor is not None:
            worker.actor.stop_reason = why
            worker.actor.ended_itself = True

    def _lose_actor(self, actor: Actor, worker: Worker, reason: str) -> None:
        calls = [task for task in worker.in_flight.values() if task.method]
        worker.in_flight.clear()
        evicted = None if worker.evicted is None else worker.evicted.error
        if worker.failure is None and actor.may_restart():
            unavailable = evicted or errors.actor_unavailable(actor, reason)
            for task in actor.restarting(calls):
                self.fail(task, errors.packed(unavailable))
            self.scheduler.enqueue(actor.creation)
            return
        died = worker.failure or errors.actor_died(actor, actor.stop_reason or reason)
        error = errors.packed(died)
        lost = error if evicted is None else errors.packed(evicted)
        for task in calls:
            self.fail(task, lost)
        self._actor_dead(actor, error)

    def _actor_dead(self, actor: Actor, error: Any) -> None:
        if actor.state == actors.DEAD:
            return
        worker = actor.worker
        in_flight = worker.in_flight if worker is not None else {}
        sent = [task for task in in_flight.values() if task.method]
        for task in actor.died(error):
            self.fail(task, error)
        for task in sent:
            if in_flight.pop(task.id, None) is not None:
                self.fail(task, error)
        self._deaths[actor.id] = error
        self.ended.append((actor_row(self.engine, actor), error))
        self._complete(actor.id, FAILED, error, ())
        if self.names.get(actor.key) is actor:
            del self.names[actor.key]
        self._let_go_of_arguments(actor.creation)
        if actor.options.detached:
            self.counts.drop((actor.id,))
        self.actors.pop(actor.id, None)

    def _producer_unwanted(self, entry: Entry) -> None:
        """Nobody can ask for the entry any more; what stands behind it may end."""
        if entry.stream is not None:
            self._abandon_stream(entry)
        task = entry.task
        if task is not None and task.actor is not None and not task.method:
            self._terminate(task.actor)
            self._deaths.pop(entry.id, None)

    def _less_wanted(self, entry: Entry) -> None:
        """Look for actors that only each other keep, soon, and once for many."""
        if not self._will_search and not entry.held and entry.id in self.actors:
            self._will_search = True
            self.engine.reactor.call_later(self._search_pause, self._end_unreachable)

    def _end_unreachable(self) -> None:
        start = time.perf_counter()
        with self.engine.lock:
            self._will_search = False
            for actor in unreachable_actors(self.actors.values(), self.engine.entries):
                self._terminate(actor)
        taken = time.perf_counter() - start
        self._search_pause = max(_SEARCH_SECONDS, taken / _SEARCH_SHARE)

    def why_lost(self, actor_id: int) -> Any:
        """The error of a call that was under way when its actor's process died."""
        actor = self.actors.get(actor_id)
        if actor is None:
            return self._why_dead(actor_id)
        return errors.packed(errors.actor_unavailable(actor, "its process died"))

    def _why_dead(self, actor_id: int) -> Any:
        return self._deaths.get(actor_id) or errors.packed(exceptions.ActorDiedError())
