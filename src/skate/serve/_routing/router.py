"""Which replica answers a request: one router per process and deployment.

    handle.remote() ──► Router.assign ──► a replica with room ──► the replica's actor
                              │ none has room
                              └─► waiting ──► until a replica has room, or another one is added

A `RoutedReplica` is a replica as this router sees it: how many of its requests are there, and
whether it has room. Other routers send to the same replicas; one that is full, or about to stop,
refuses, and the request goes elsewhere or waits until the replica says that it has room. The
controller tells which replicas there are; one whose process died is left at once.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import skate
from skate._core.futures import value_now, when_done
from skate._core.measurements import announce_measurements
from skate.exceptions import ActorError, StaleReferenceError, TaskCancelledError, TaskError
from skate.serve._identity import DeploymentID
from skate.serve._measurements import of_router
from skate.serve._routing.choosing import for_model, least_busy, less_busy
from skate.serve._routing.requests import NOT_YET, RequestFailure, RequestRefused, RoutedRequest
from skate.serve._routing.routed_replica import RoutedReplica
from skate.serve._routing.routing_table import RoutingTable
from skate.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    ReplicaUnavailableError,
    RequestCancelledError,
    SkateServeError,
)

if TYPE_CHECKING:
    from skate.serve._identity import ReplicaHandle
    from skate.serve._routing.requests import Call
    from skate.serve._routing.user_routing import UserRouting


class Router:
    """Sends the requests of this process to the replicas of one deployment. Thread-safe."""

    def __init__(self, id: DeploymentID) -> None:
        self.id = id
        self.lock = threading.RLock()
        self.table: RoutingTable | None = None
        self.closed: bool = False
        self._orphaned_by: BaseException | None = None  # the end of the controller
        self._has_table = threading.Event()
        self._replicas: list[RoutedReplica] = []
        self._waiting: OrderedDict[RoutedRequest, None] = OrderedDict()
        self._watchers: list[Callable[[], None]] = []
        self._by_user: UserRouting | None = None  # who chooses instead of this one
        self.on_table: Callable[[RoutingTable], None] = lambda table: None
        self.on_queue: Callable[[], None] | None = None  # called when a request has to wait
        self.assigned = Counter[str]()  # by route
        announce_measurements(self, of_router)

    # -- what handles ask for ------------------------------------------------------------------

    def assign(self, request: RoutedRequest) -> None:
        """Send a request now or as soon as a replica is free; errors become its outcome."""
        refusal = None
        with self.lock:
            self.assigned[request.route] += 1
            replica = self._choose(request) if self.table else None
            if replica is not None:
                replica.add(request)
            elif (refusal := self._reason_to_refuse()) is None:
                self._waiting[request] = None
                if self._by_user is not None:
                    self._by_user.add(request)
                if self.on_queue is not None:
                    self.on_queue()
        if replica is not None:
            self._send(request, replica)
        elif refusal is not None:
            request.settle(RequestFailure(refusal))

    def cancel(self, request: RoutedRequest) -> None:
        """Take it from the queue, or tell the replica."""
        with self.lock:
            request.cancelled = True
            if request.outcome is not NOT_YET:
                return
            ref = request.ref
            if ref is None:
                self._waiting.pop(request, None)
        if ref is None:
            request.settle(RequestFailure(RequestCancelledError(request.id)))
        else:
            _cancel_call(request, ref)

    def release(self, reservation: RoutedRequest, replica: RoutedReplica) -> None:
        """Give back a reservation that is not needed."""
        with self.lock:
            replica.in_flight.discard(reservation)
        self._send_waiting()

    def transfer(
        self, reservation: RoutedRequest, request: RoutedRequest, replica: RoutedReplica
    ) -> None:
        """Let a request have the room that was reserved for it, at once, so that no other gets in
        between; an end of the request gives it back, also one before it is sent."""
        with self.lock:
            replica.in_flight.discard(reservation)
            replica.add(request)
        request.when_settled(lambda: self.release(request, replica))

    def waiting(self) -> int:
        """Return how many requests wait for a replica."""
        return len(self._waiting)

    def in_flight(self) -> int:
        """Return how many requests are at replicas."""
        with self.lock:
            return sum(len(replica.in_flight) for replica in self._replicas)

    def has_replicas(self) -> bool:
        """Return whether any replica is known."""
        return bool(self._replicas)

    def actors(self, besides: str = "") -> list[ReplicaHandle]:
        """Return the actors of all replicas, without the one that is named `besides`."""
        with self.lock:
            return [replica.actor for replica in self._replicas if replica.tag != besides]

    @contextmanager
    def notifying(self, changed: Callable[[], None]) -> Iterator[None]:
        """Call `changed`, on any thread, whenever there may be other replicas."""
        with self.lock:
            self._watchers.append(changed)
        try:
            yield
        finally:
            with self.lock:
                self._watchers.remove(changed)

    def wait_for_table(self, timeout: float = 30) -> None:
        """Return once the controller has told which replicas there are."""
        if not self._has_table.wait(timeout):
            raise TimeoutError(f"nothing was heard of {self.id} within {timeout} s")

    def has_room_besides(self, tag: str) -> bool:
        """Return whether another replica than this one may take a request."""
        with self.lock:
            others = [replica for replica in self._replicas if replica.tag != tag]
            return any(replica.has_room(self._most) for replica in others)

    def prefers_another(self, tag: str, model_id: str) -> bool:
        """Return whether another replica should get a request for a model that this one lacks."""
        with self.lock:
            replica = for_model(self._replicas, model_id, self._most)
            return replica is not None and replica.tag != tag

    def note_full(self, tag: str) -> None:
        """Send nothing to a replica until it says that it has room."""
        with self.lock:
            replica = next((replica for replica in self._replicas if replica.tag == tag), None)
        if replica is not None:
            self._wait_for_room(replica)

    # -- outcomes ------------------------------------------------------------------------------

    def handle_answer(self, request: RoutedRequest, ref: Call, answer: object) -> None:
        """Settle a request that was answered, or send it again if it was refused."""
        if type(answer) is RequestRefused:
            self._refused(request, ref, answer)
            return
        # Whoever has the result may send the next one before `_answered` is called.
        with self.lock:
            if request.replica is not None:
                request.replica.in_flight.discard(request)
        request.settle(answer)

    def handle_failure(self, request: RoutedRequest, ref: Call, error: BaseException) -> None:
        """Settle a request whose call failed, or send it elsewhere if it never began."""
        if isinstance(error, ActorError) and not isinstance(error, TaskError):
            self._remove(request.replica)
            if request.reached_nobody and not request.is_dispatched:
                self._requeue(request, ref)
                return
            if request.reached_nobody and request.replica is not None:
                error = ReplicaUnavailableError(request.replica.tag)
        elif isinstance(error, TaskCancelledError) and (
            request.cancelled or not isinstance(error, TaskError)
        ):
            error = RequestCancelledError(request.id)
        request.settle(RequestFailure(error))

    def release_claim(self, request: RoutedRequest) -> None:
        """Look at the answer when it comes: whoever waited for it gave up."""
        with self.lock:
            request.claimed = False
            ref, is_late = request.ref, request.answered and request.outcome is NOT_YET
        if is_late:
            self._fetch(request, ref)

    # -- the controller's news -----------------------------------------------------------------

    def update(self, table: RoutingTable) -> None:
        """Use these replicas from now on."""
        with self.lock:
            if self.closed:  # while this was on its way
                return
            is_first = self.table is None
            self.table = table
            known = {replica.tag: replica for replica in self._replicas if not replica.closed}
            self._replicas = [
                known.get(entry.tag) or RoutedReplica(entry) for entry in table.replicas
            ]
            for replica, entry in zip(self._replicas, table.replicas, strict=True):
                replica.update(entry)
            self._follow(table)
            for changed in self._watchers:
                changed()
        self._has_table.set()
        self.on_table(table)
        if table.unavailable:
            self._fail_waiting(DeploymentUnavailableError(self.id, table.unavailable))
        self._send_waiting()
        if is_first:
            self._refuse_surplus()

    def _follow(self, table: RoutingTable) -> None:
        """Have a router of the user's choose from now on, or no more."""
        before = None if self._by_user is None else self._by_user.plan
        if table.router != before:
            self._choose_ourselves()
            if table.router is not None:
                from skate.serve._routing.user_routing import UserRouting

                self._by_user = UserRouting(self, table.router)
                for request in self._waiting:
                    self._by_user.add(request)
        if self._by_user is not None:
            self._by_user.update(self._replicas, table)

    def _choose_ourselves(self) -> None:
        by_user, self._by_user = self._by_user, None
        if by_user is not None:
            by_user.end()

    def _refuse_surplus(self) -> None:
        """Refuse the last that came, now that it is known how many may wait."""
        surplus = []
        with self.lock:
            assert self.table is not None
            while len(self._waiting) > self.table.max_queued_requests >= 0:
                request, _ = self._waiting.popitem()
                surplus.append((request, self._reason_to_refuse()))
        for request, refusal in surplus:
            assert refusal is not None
            request.settle(RequestFailure(refusal))

    @property
    def is_orphan(self) -> bool:
        """Whether the controller that told of the replicas is gone."""
        return self._orphaned_by is not None

    def outlive(self, error: BaseException) -> None:
        """Go on with the replicas that are known; close when the last of them is gone, too."""
        with self.lock:
            self._orphaned_by = error
        self._close_if_alone()

    def _close_if_alone(self) -> None:
        if self._orphaned_by is not None and not self._replicas:
            self.close(self._orphaned_by)

    def close(self, error: BaseException) -> None:
        """Fail what waits, and what comes: the controller tells nothing any more."""
        with self.lock:
            self.closed = True
            self.table = RoutingTable(unavailable=str(error))
            self._replicas = []
            self._choose_ourselves()
        self._has_table.set()
        self._fail_waiting(error)

    def _fail_waiting(self, error: BaseException) -> None:
        with self.lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        for request in waiting:
            request.settle(RequestFailure(error))

    # -- choosing ------------------------------------------------------------------------------

    def _choose(self, request: RoutedRequest) -> RoutedReplica | None:
        """Return a replica with room, if there is one."""
        if request.is_dispatched:
            return request.replica
        if self._by_user is not None:
            return None  # it will be chosen by `send_to`
        if request.model_id:
            return for_model(self._replicas, request.model_id, self._most)
        return less_busy(self._replicas, self._most)

    @property
    def _most(self) -> int:
        """How many requests a replica may have under way; none before the first table."""
        return 0 if self.table is None else self.table.max_ongoing_requests

    def _reason_to_refuse(self) -> Exception | None:
        table = self.table
        if table is None:
            return None
        if table.unavailable:
            return DeploymentUnavailableError(self.id, table.unavailable)
        most = table.max_queued_requests
        if 0 <= most <= len(self._waiting):
            pressure = table.backpressure
            return BackPressureError(
                len(self._waiting), most, pressure.status_code, pressure.retry_after_s
            )
        return None

    def _send_waiting(self) -> None:
        """Send what waits to whoever is free."""
        by_user = self._by_user
        if by_user is not None:
            by_user.wake()
            return
        while skate.is_initialized():  # a call after the end of a session would begin another
            with self.lock:
                if not self._waiting or not self.table:
                    return
                request = next(iter(self._waiting))
                replica = self._choose(request)
                if replica is None:
                    return
                del self._waiting[request]
                replica.add(request)
            self._send(request, replica)

    def send_to(
        self, request: RoutedRequest, replicas: Iterable[RoutedReplica]
    ) -> RoutedReplica | None:
        """Send a request that waits to the least busy of these; None if none has room."""
        with self.lock:
            replica = least_busy(replicas, self._most)
            if replica is None or request not in self._waiting or not skate.is_initialized():
                return None
            del self._waiting[request]
            replica.add(request)
        self._send(request, replica)
        return replica

    def free_places(self) -> int:
        """Return how many requests the replicas may take."""
        with self.lock:
            most = self._most
            free = [replica for replica in self._replicas if replica.has_room(most)]
            return sum(most - len(replica.in_flight) for replica in free)

    def give_up(self, request: RoutedRequest, error: Exception) -> None:
        """Take a request from the queue for which no replica can be chosen."""
        with self.lock:
            if request not in self._waiting:
                return
            del self._waiting[request]
        request.settle(RequestFailure(error))

    # -- sending -------------------------------------------------------------------------------

    def _send(self, request: RoutedRequest, replica: RoutedReplica) -> None:
        if request.is_reservation:
            self._reserve(request, replica)
            return
        call: Callable[..., Any] = replica.method_for(request).remote
        if request.caller is not None:
            call = partial(request.caller.run, call)
        request.is_being_sent, request.answered = True, False
        request.reached_nobody = replica.closed
        try:
            ref = call(*request.head, *request.args, **request.kwargs)
        except Exception as error:  # what cannot be pickled, above all
            cause = error.__cause__
            self._fail(request, replica, cause if isinstance(cause, SkateServeError) else error)
            return
        with self.lock:
            request.replica = replica
            request.ref = ref
        if request._sent is not None:
            request.announce()
        answered = ref.completed() if request.stream else ref
        try:
            when_done(answered, lambda: self._answered(request, ref))
        except StaleReferenceError as error:  # the session has just ended
            self._fail(request, replica, error)
        request.is_being_sent = False
        if request.cancelled:  # while it was on its way: it has an outcome, the replica runs it
            _cancel_call(request, ref)

    def _fail(self, request: RoutedRequest, replica: RoutedReplica, error: Exception) -> None:
        """End a request that could not be sent to this replica."""
        with self.lock:
            replica.in_flight.discard(request)
        request.settle(RequestFailure(error))

    def _reserve(self, reservation: RoutedRequest, replica: RoutedReplica) -> None:
        reservation.settle(replica)
        if reservation.outcome is not replica:  # it was cancelled a moment before
            self.release(reservation, replica)

    def _answered(self, request: RoutedRequest, ref: Call) -> None:
        """Note, on any thread, that the replica has answered or is gone."""
        with self.lock:
            if request.replica is not None:
                request.replica.in_flight.discard(request)
            request.answered = True
            request.reached_nobody |= request.is_being_sent
            claimed = request.claimed
            if self._by_user is not None and request.replica is not None:
                self._by_user.note_answer(request, request.replica)
        if not claimed:
            self._fetch(request, ref)
        if self._waiting:
            self._send_waiting()

    def _fetch(self, request: RoutedRequest, ref: Call) -> None:
        try:
            answer = value_now(ref)  # type: ignore[arg-type]  # streams are claimed
        except Exception as error:
            self.handle_failure(request, ref, error)
        else:
            self.handle_answer(request, ref, answer)

    # -- when a replica does not take it -------------------------------------------------------

    def _refused(self, request: RoutedRequest, ref: Call, answer: RequestRefused) -> None:
        replica = request.replica
        assert replica is not None
        if answer.stopping:
            self._remove(replica)
        else:
            self._wait_for_room(replica)
        self._requeue(request, ref)

    def _requeue(self, request: RoutedRequest, ref: Call) -> None:
        """Put it back to the head of the queue; whoever noticed first does it."""
        with self.lock:
            if request.ref is not ref:
                return
            request.ref = None
            self._waiting[request] = None
            self._waiting.move_to_end(request, last=False)
            if self._by_user is not None:
                self._by_user.add(request)
        self._close_if_alone()
        self._send_waiting()

    def _remove(self, replica: RoutedReplica | None) -> None:
        """Send nothing to this replica any more."""
        with self.lock:
            if replica is not None:
                replica.closed = True
                self._replicas = [other for other in self._replicas if other is not replica]
                if self._by_user is not None and self.table is not None:
                    self._by_user.note_death(replica)
                    self._by_user.update(self._replicas, self.table)
        self._close_if_alone()

    def _wait_for_room(self, replica: RoutedReplica) -> None:
        with self.lock:
            if replica.full or replica.closed:
                return
            replica.full = True
        ref = replica.actor.has_room.remote()

        def room(ref: object = ref) -> None:
            replica.full = False
            self._send_waiting()

        when_done(ref, room)


def _cancel_call(request: RoutedRequest, ref: Any) -> None:
    """Tell the replica."""
    if request.stream:
        ref.close()
    skate.cancel(ref)
