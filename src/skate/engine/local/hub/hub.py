"""The hub: connects tasks, actors and objects to processes.

    f.remote() in the driver ─► tasks ─► scheduler ─► dispatch ─► Work ─► worker
    get() in the driver      ◄─ values ◄─ tasks ◄─ router ◄─ WorkResult ◄──┘

The components work on the tables in `state`; each is given those that it needs. What they need of
the engine is in `ports`. Everything runs in the driver under the engine's lock, on the thread that
leads the reactor or that makes a call. What comes from workers arrives in `received`, in order
per worker, and goes to the handler of its message.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from skate.engine.local import messages as m
from skate.engine.local.archives import Archives
from skate.engine.local.hub.actor_names import ActorNames
from skate.engine.local.hub.counts import Counts
from skate.engine.local.hub.dispatch import Dispatch, WorkerOutbox
from skate.engine.local.hub.functions import Functions
from skate.engine.local.hub.idle import IdleWorkers
from skate.engine.local.hub.inventory import ended_worker_row
from skate.engine.local.hub.lifecycle import ActorLifecycle
from skate.engine.local.hub.losses import WorkerLosses
from skate.engine.local.hub.memory_guard import MemoryGuard
from skate.engine.local.hub.peering import Peering
from skate.engine.local.hub.placement import PlacementGroups
from skate.engine.local.hub.plans import Planner
from skate.engine.local.hub.processes import Processes
from skate.engine.local.hub.requests import Requests
from skate.engine.local.hub.resources import CPU, UNIT, ResourcePool
from skate.engine.local.hub.scheduler import Scheduler
from skate.engine.local.hub.segments import Segments
from skate.engine.local.hub.state import SessionFacts, State
from skate.engine.local.hub.streaming import Streaming
from skate.engine.local.hub.submissions import Submissions
from skate.engine.local.hub.tasks import TaskLifecycle
from skate.engine.local.hub.values import Values
from skate.engine.local.hub.waits import WorkerWaits
from skate.engine.local.hub.worker_requests import WorkerRequests
from skate.engine.local.unread import PackedUnreadErrors
from skate.engine.local.wire import by_number

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.groups import HubGroup
    from skate.engine.local.hub.ports import Ports
    from skate.engine.local.hub.servers import Servers
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.hub.workers import Environment, WorkerProcess
    from skate.engine.local.objects import ObjectEntry
    from skate.engine.local.wire import Message


class _SchedulerEffects(NamedTuple):
    """What the scheduler asks for, and who does it; as `scheduler.Effects` says."""

    start: Callable[[Environment, HubTask], WorkerProcess]
    send: Callable[[WorkerProcess, HubTask], None]
    steal: Callable[[WorkerProcess], None]
    retire: Callable[[WorkerProcess], None]
    group_ready: Callable[[HubGroup], None]
    rested: Callable[[], None]
    not_started: Callable[[HubTask, OSError], None]


class _TaskEvents(NamedTuple):
    """The same of `tasks.TaskEvents`."""

    construction_failed: Callable[[HubActor, Packed], None]
    actor_dead: Callable[[HubActor, Packed], None]
    kill: Callable[[WorkerProcess], None]


class Hub:
    """Makes the components and tells each of those that it works with.

    Where two need each other, the one that is made first is given a function of this class.
    """

    state: State
    outbox: WorkerOutbox
    processes: Processes
    segments: Segments
    counts: Counts
    values: Values
    streaming: Streaming
    functions: Functions
    scheduler: Scheduler
    tasks: TaskLifecycle
    lifecycle: ActorLifecycle
    actor_names: ActorNames
    planner: Planner
    waits: WorkerWaits

    def __init__(
        self,
        ports: Ports,
        info: SessionFacts,
        entries: dict[int, ObjectEntry],
        machine: ResourcePool,
        servers: Servers,
        worker_settings: Mapping[str, Any],
        outputs: list[int],
        memory_guard: tuple[float, float],
    ) -> None:
        self._ports = ports
        self._info = info
        self._make_objects(ports, entries, servers, worker_settings, outputs)
        dispatch = self._make_scheduler(machine, memory_guard)
        self._make_tasks(dispatch, Archives(worker_settings.get("session_dir", "")))

    def _make_objects(
        self,
        ports: Ports,
        entries: dict[int, ObjectEntry],
        servers: Servers,
        worker_settings: Mapping[str, Any],
        outputs: list[int],
    ) -> None:
        """Make the processes, and what carries values between them."""
        self.state = state = State(entries)
        self.outbox = outbox = WorkerOutbox(ports.reactor)
        self.unread: PackedUnreadErrors = PackedUnreadErrors(ports.reactor.after)
        self.processes = Processes(
            ports, state.workers, outbox, servers, worker_settings, outputs,
            self.received, self._lose,
        )  # fmt: skip
        self.segments = segments = Segments(ports, state.workers, outbox)
        self.counts = counts = Counts(
            entries, segments.free_entry, self._unwanted, self._less_wanted, self.unread.add
        )
        self.values = values = Values(ports, entries, counts, segments, outbox, self.unread)
        self.streaming = Streaming(entries, values, counts, outbox, ports.new_id, self._give_up)
        self.functions = Functions(state, counts, segments, outbox)

    def _make_scheduler(
        self, machine: ResourcePool, memory_guard: tuple[float, float]
    ) -> Dispatch:
        """Make what decides where tasks run, and return what sends them there."""
        state, processes, segments, outbox = self.state, self.processes, self.segments, self.outbox
        guard = MemoryGuard(
            self._ports, state.workers, processes.kill, self._dismiss, *memory_guard
        )
        dispatch = Dispatch(
            self.functions, segments, outbox, guard, self._info.visible_accelerators
        )
        effects = _SchedulerEffects(
            processes.start, dispatch.send, processes.steal, processes.retire,
            self._group_ready, self._rested, self._not_started,
        )  # fmt: skip
        cpus = machine.total.get(CPU, 0) // UNIT
        self.scheduler = Scheduler(machine, max(1, cpus), effects, state.groups, state.queues)
        self.waits = WorkerWaits(state, self.scheduler, outbox)
        return dispatch

    def _make_tasks(self, dispatch: Dispatch, archives: Archives) -> None:
        """Make what happens to tasks and actors, and what workers ask for."""
        ports, info, state, outbox = self._ports, self._info, self.state, self.outbox
        values, counts, segments = self.values, self.counts, self.segments
        streaming, functions = self.streaming, self.functions
        processes, scheduler = self.processes, self.scheduler
        events = _TaskEvents(self._construction_failed, self._actor_dead, processes.kill)
        self.tasks = tasks = TaskLifecycle(
            ports, state, values, streaming, counts, scheduler, dispatch, outbox, events
        )
        self.lifecycle = lifecycle = ActorLifecycle(
            ports, info, state, values, counts, scheduler, dispatch, tasks, processes
        )
        placement = PlacementGroups(info, state, values, counts, scheduler, tasks, processes)
        self.actor_names = names = ActorNames(info.namespace, state.names)
        self.planner = planner = Planner(
            ports.lock, info, state.actors, scheduler, processes.find_environment, archives
        )
        self.requests: Requests = Requests(
            ports, info, state, scheduler, tasks, lifecycle, names, placement, self.waits
        )
        self._idle = IdleWorkers(ports, scheduler, processes)
        self._losses = WorkerLosses(
            values, counts, segments, functions, scheduler, outbox, tasks, lifecycle, placement
        )
        submissions = Submissions(state, counts, planner, tasks, lifecycle, names)
        self.handlers: dict[int, Callable[..., None]] = self._route(
            submissions,
            WorkerRequests(
                ports, counts, outbox, streaming, submissions, names, placement, self.requests
            ),
        )

    # -- messages of workers -------------------------------------------------------------------

    def _route(
        self, submissions: Submissions, requests: WorkerRequests
    ) -> dict[int, Callable[..., None]]:
        """Return who handles which message of workers."""
        peering = Peering(self.state, self.values, self.outbox)
        waits = self.waits
        return by_number(
            {
                m.WorkResult: self.tasks.on_result,
                m.WorkResults: self.tasks.on_results,
                m.RetryWork: self.tasks.on_retry,
                m.GaveBack: self.tasks.on_gave_back,
                m.StreamItem: self.streaming.on_item,
                m.Subscribe: self.values.on_subscribe,
                m.PutValue: self.values.on_put,
                m.PromiseValues: self.values.on_promise,
                m.Hold: self.counts.hold,
                m.Release: self.counts.release,
                m.Blocked: waits.on_blocked,
                m.Unblocked: waits.on_unblocked,
                m.TellWaits: waits.on_told,
                m.ActorExiting: self.lifecycle.on_exiting,
                m.SubmitTask: submissions.on_task,
                m.SubmitActor: submissions.on_actor,
                m.SubmitCall: submissions.on_call,
                m.LostCall: submissions.on_lost_call,
                m.DefineOptions: submissions.on_options,
                m.ExportFunction: self.functions.on_export,
                m.UnexportFunction: self.functions.on_unexport,
                m.ConnectTo: peering.on_connect,
                m.Listening: peering.on_listening,
                m.PutValueFor: peering.on_put_for,
                m.AskHub: requests.on_request,
                m.ReturnLoan: requests.on_return,
                m.PrintText: self._on_print,
                m.RecordSpan: self._on_span,
            }
        )

    def received(self, worker: WorkerProcess, incoming: Sequence[Message]) -> None:
        """Handle messages of a worker, in order."""
        for message in incoming:
            try:
                number, fields = message
                self.handlers[number](worker, *fields)
            except Exception:  # a defect must be seen, and must not take the others along
                sys.excepthook(*sys.exc_info())
        answered = self.state.answered
        while answered:
            try:
                self.scheduler.refill(answered.pop())
            except Exception:
                sys.excepthook(*sys.exc_info())

    def _on_print(
        self, worker: WorkerProcess, stream: int, label: str, text: str, task_id: int
    ) -> None:
        # Now, so that it is out before the result that follows. Not under the engine's lock: the
        # stream may have one of its own, held by somebody who waits for the engine's.
        actor_id = worker.actor.id if worker.actor is not None else 0
        self._ports.lock.release()
        try:
            self._ports.print_text(worker.pid, stream, label, text, task_id, actor_id)
        finally:
            self._ports.lock.acquire()

    def _on_span(
        self, worker: WorkerProcess, name: str, start: float, micros: int, extra: dict[str, object]
    ) -> None:
        self.state.spans.append((name, start, micros, extra, worker.pid))

    def close(self) -> None:
        """End the session. Someone may be in the middle of `received`, and print."""
        self.handlers = defaultdict(lambda: _ignore)
        self.state.answered.clear()
        self.processes.shutdown()

    # -- from what was made first to what was made later ---------------------------------------

    def _lose(self, worker: WorkerProcess) -> None:
        if worker.pid > 0:
            self.state.ended_workers.append(ended_worker_row(self._info, worker))
        self._losses.lose(worker)

    def _unwanted(self, entry: ObjectEntry) -> None:
        """End what stands behind an entry that nobody can ask for any more."""
        if entry.read and entry.kind is None:
            self.unread.told.add(entry.id)
        if entry.stream is not None:
            self.streaming.abandon(entry)
        self.lifecycle.unwanted(entry)

    def _less_wanted(self, entry: ObjectEntry) -> None:
        self.lifecycle.less_wanted(entry)

    def _give_up(self, task: HubTask) -> None:
        self.tasks.give_up(task)

    def _dismiss(self, worker: WorkerProcess) -> None:
        self.scheduler.dismiss(worker)

    def _group_ready(self, group: HubGroup) -> None:
        self.values.complete_with_none(group.id)

    def _rested(self) -> None:
        self._idle.look_later()

    def _not_started(self, task: HubTask, error: OSError) -> None:
        self.tasks.not_started(task, error)

    def _construction_failed(self, actor: HubActor, error: Packed) -> None:
        self.lifecycle.construction_failed(actor, error)

    def _actor_dead(self, actor: HubActor, error: Packed) -> None:
        self.lifecycle.declare_dead(actor, error)


def _ignore(worker: WorkerProcess, *fields: object) -> None:
    pass
