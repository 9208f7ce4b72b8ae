"""Which replica answers a request: one router per process and deployment.

    handle.remote() ──► Router.assign ──► a seat that is free ──► the replica's actor
                              │ none is free
                              └─► waiting ──► when a seat becomes free, or a replica is added

A seat is a replica as this router sees it: how many of its requests are there, and whether it
has room. Other routers send to the same replicas; a replica that is full, or about to stop,
refuses, and the request goes elsewhere or waits until the replica says that it has room. The
controller tells which replicas there are; a seat whose replica died is left at once.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from zlib import crc32

import skate
from skate._core.futures import value_now, when_done
from skate.exceptions import ActorError, TaskCancelledError, TaskError
from skate.serve._identity import DeploymentID
from skate.serve._requests import NOT_YET, Failure, Refused, Request
from skate.serve._seat import Seat
from skate.serve.config import BackpressureConfig
from skate.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    ReplicaUnavailableError,
    RequestCancelledError,
    SkateServeError,
)


class RoutingTable(NamedTuple):
    """What the controller tells routers of a deployment."""

    replicas: tuple[tuple[str, Any, tuple[str, ...]], ...] = ()  # tag, actor, loaded models
    max_ongoing_requests: int = 5
    max_queued_requests: int = -1
    backpressure: BackpressureConfig = BackpressureConfig()
    unavailable: str = ""  # why there will be no replicas
    metrics_interval_s: float = 0  # how often the load is to be told; 0: not at all


class Router:
    """Sends the requests of this process to the replicas of one deployment. Thread-safe."""

    def __init__(self, id: DeploymentID) -> None:
        self.id = id
        self.lock = threading.RLock()
        self.table: RoutingTable | None = None
        self.closed = False
        self._has_table = threading.Event()
        self._seats: list[Seat] = []
        self._waiting: deque[Request] = deque()
        self._watchers: list[Callable[[], None]] = []
        self.on_table: Callable[[RoutingTable], None] = lambda table: None
        self.on_queue: Callable[[], None] | None = None  # called when a request has to wait

    # -- what handles ask for ------------------------------------------------------------------

    def assign(self, request: Request) -> None:
        """Send a request now or as soon as a replica is free; errors become its outcome."""
        with self.lock:
            seat = self._choose(request) if self.table else None
            if seat is None:
                refusal = self._reason_to_refuse()
                if refusal is None:
                    self._waiting.append(request)
                    if self.on_queue is not None:
                        self.on_queue()
                    return
            else:
                seat.add(request)
        if seat is None:
            request.settle(Failure(refusal))  # type: ignore[arg-type]
        else:
            self._send(request, seat)

    def cancel(self, request: Request) -> None:
        """Take it from the queue, or tell the replica."""
        with self.lock:
            request.cancelled = True
            if request.outcome is not NOT_YET:
                return
            ref = request.ref
            if ref is None and request in self._waiting:
                self._waiting.remove(request)
        if ref is None:
            request.settle(Failure(RequestCancelledError(request.id)))
        elif request.stream:
            ref.close()
            skate.cancel(ref)
        else:
            skate.cancel(ref)

    def free(self, place: Request, seat: Seat) -> None:
        """A place that was taken for a request is not needed."""
        with self.lock:
            seat.in_flight.discard(place)
        self._pump()

    def pass_on(self, place: Request, request: Request, seat: Seat) -> None:
        """Let a request have a place that was taken for it, at once, so that no other gets in
        between; an end of the request gives it back, also one before it is sent."""
        with self.lock:
            seat.in_flight.discard(place)
            seat.add(request)
        request.when_settled(lambda: self.free(request, seat))

    def waiting(self) -> int:
        """How many requests wait for a replica."""
        return len(self._waiting)

    def replicas(self, besides: str = "") -> list[Any]:
        """The actors of all replicas, for what goes to each of them; without one, if named."""
        with self.lock:
            return [seat.actor for seat in self._seats if seat.tag != besides]

    @contextmanager
    def watched(self, changed: Callable[[], None]) -> Iterator[None]:
        """Calls `changed`, on any thread, whenever there may be other replicas."""
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
        """Whether another replica than this one may take a request."""
        with self.lock:
            others = [seat for seat in self._seats if seat.tag != tag]
            return any(self._is_free(seat) for seat in others)

    def prefers_another(self, tag: str, model_id: str) -> bool:
        """Whether a request for a model that this replica has not should go to another."""
        with self.lock:
            seat = self._choose_for(model_id) if self.table else None
            return seat is not None and seat.tag != tag

    def note_full(self, tag: str) -> None:
        """A replica takes no more requests for now, says someone who knows."""
        with self.lock:
            seat = next((seat for seat in self._seats if seat.tag == tag), None)
        if seat is not None:
            self._wait_for_room(seat)

    # -- outcomes ------------------------------------------------------------------------------

    def look(self, request: Request, ref: Any, answer: Any) -> None:
        """An answer has come: settle the request, or send it again if it was refused."""
        if type(answer) is Refused:
            self._refused(request, ref, answer)
        else:
            request.settle(answer)

    def failed(self, request: Request, ref: Any, error: BaseException) -> None:
        """The call failed: settle the request, or send it elsewhere if it never began."""
        if isinstance(error, ActorError) and not isinstance(error, TaskError):
            self._leave(request.seat)
            if request.stillborn and not request.fixed:
                self._again(request, ref)
                return
            if request.stillborn and request.seat is not None:
                error = ReplicaUnavailableError(request.seat.tag)
        elif isinstance(error, TaskCancelledError) and (
            request.cancelled or not isinstance(error, TaskError)
        ):
            error = RequestCancelledError(request.id)
        request.settle(Failure(error))

    def unclaim(self, request: Request) -> None:
        """Whoever waited for the value gave up."""
        with self.lock:
            request.claimed = False
            ref, is_late = request.ref, request.answered and request.outcome is NOT_YET
        if is_late:
            self._fetch(request, ref)

    # -- the controller's news -----------------------------------------------------------------

    def update(self, table: RoutingTable) -> None:
        """The replicas that there are from now on."""
        with self.lock:
            is_first = self.table is None
            self.table = table
            known = {seat.tag: seat for seat in self._seats if not seat.closed}
            self._seats = [
                known.get(tag) or Seat(tag, actor, models) for tag, actor, models in table.replicas
            ]
            for seat, (_, _, models) in zip(self._seats, table.replicas, strict=True):
                seat.tell_models(models)
            for changed in self._watchers:
                changed()
        self._has_table.set()
        self.on_table(table)
        if table.unavailable:
            self._fail_waiting(DeploymentUnavailableError(self.id, table.unavailable))
        self._pump()
        if is_first:
            self._refuse_surplus()

    def _refuse_surplus(self) -> None:
        """How many may wait is known only now: the last that came are too many."""
        surplus = []
        with self.lock:
            assert self.table is not None
            while len(self._waiting) > self.table.max_queued_requests >= 0:
                request = self._waiting.pop()
                surplus.append((request, self._reason_to_refuse()))
        for request, refusal in surplus:
            assert refusal is not None
            request.settle(Failure(refusal))

    def close(self, error: BaseException) -> None:
        """No news will come any more."""
        with self.lock:
            self.closed = True
            self.table = RoutingTable(unavailable=str(error))
            self._seats = []
        self._has_table.set()
        self._fail_waiting(error)

    def _fail_waiting(self, error: BaseException) -> None:
        with self.lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        for request in waiting:
            request.settle(Failure(error))

    # -- choosing ------------------------------------------------------------------------------

    def _choose(self, request: Request) -> Seat | None:
        """A seat with room."""
        if request.fixed:
            return request.seat
        if request.model_id:
            return self._choose_for(request.model_id)
        return self._less_busy(self._seats)

    def _choose_for(self, model_id: str) -> Seat | None:
        """A seat that has the model, else the one with the fewest. Of several, all processes
        choose the same: requests for a new model that come at once load it once."""
        having = self._less_busy([seat for seat in self._seats if seat.has_model(model_id)])
        if having is not None:
            return having
        free = (seat for seat in self._seats if self._is_free(seat))
        return min(
            free,
            key=lambda seat: (seat.count_models(), crc32(f"{model_id} {seat.tag}".encode())),
            default=None,
        )

    def _less_busy(self, seats: list[Seat]) -> Seat | None:
        count = len(seats)
        if count == 1:
            return seats[0] if self._is_free(seats[0]) else None
        if count > 2:
            chosen = self._least(random.sample(seats, 2))
            if chosen is not None:
                return chosen
        elif count == 2 and random.random() < 0.5:
            seats = seats[::-1]
        return self._least(seats)

    def _least(self, seats: Iterable[Seat]) -> Seat | None:
        free = (seat for seat in seats if self._is_free(seat))
        return min(free, key=lambda seat: len(seat.in_flight), default=None)

    def _is_free(self, seat: Seat) -> bool:
        assert self.table is not None
        return not seat.full and len(seat.in_flight) < self.table.max_ongoing_requests

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

    def _pump(self) -> None:
        """Send what waits to whoever is free."""
        while skate.is_initialized():  # a call after the end of a session would begin another
            with self.lock:
                if not self._waiting or not self.table:
                    return
                seat = self._choose(self._waiting[0])
                if seat is None:
                    return
                request = self._waiting.popleft()
                seat.add(request)
            self._send(request, seat)

    # -- sending -------------------------------------------------------------------------------

    def _send(self, request: Request, seat: Seat) -> None:
        if request.reserves:
            self._reserve(request, seat)
            return
        method = seat.method_for(request)
        request.fresh, request.answered, request.stillborn = True, False, seat.closed
        try:
            ref = method.remote(
                request.method, request.id, request.model_id, *request.args, **request.kwargs
            )
        except Exception as error:  # what cannot be pickled, above all
            with self.lock:
                seat.in_flight.discard(request)
            cause = error.__cause__
            request.settle(Failure(cause if isinstance(cause, SkateServeError) else error))
            return
        with self.lock:
            request.seat = seat
            request.ref = ref
        if request._sent is not None:
            request.announce()
        when_done(ref.completed() if request.stream else ref, lambda: self._done(request, ref))
        request.fresh = False
        if request.cancelled:
            self.cancel(request)

    def _reserve(self, place: Request, seat: Seat) -> None:
        place.settle(seat)
        if place.outcome is not seat:  # it was cancelled a moment before
            self.free(place, seat)

    def _done(self, request: Request, ref: Any) -> None:
        """The replica has answered, or is gone. On any thread."""
        with self.lock:
            if request.seat is not None:
                request.seat.in_flight.discard(request)
            request.answered = True
            request.stillborn |= request.fresh
            claimed = request.claimed
        if not claimed:
            self._fetch(request, ref)
        if self._waiting:
            self._pump()

    def _fetch(self, request: Request, ref: Any) -> None:
        try:
            answer = value_now(ref)
        except Exception as error:
            self.failed(request, ref, error)
        else:
            self.look(request, ref, answer)

    # -- when a replica does not take it -------------------------------------------------------

    def _refused(self, request: Request, ref: Any, answer: Refused) -> None:
        seat = request.seat
        assert seat is not None
        if answer.stopping:
            self._leave(seat)
        else:
            self._wait_for_room(seat)
        self._again(request, ref)

    def _again(self, request: Request, ref: Any) -> None:
        """Back to the head of the queue; whoever noticed first does it."""
        with self.lock:
            if request.ref is not ref:
                return
            request.ref = None
            self._waiting.appendleft(request)
        self._pump()

    def _leave(self, seat: Seat | None) -> None:
        """Send nothing to this replica any more."""
        with self.lock:
            if seat is not None:
                seat.closed = True
                self._seats = [other for other in self._seats if other is not seat]

    def _wait_for_room(self, seat: Seat) -> None:
        with self.lock:
            if seat.full or seat.closed:
                return
            seat.full = True
        ref = seat.actor.has_room.remote()

        def room(ref: Any = ref) -> None:
            seat.full = False
            self._pump()

        when_done(ref, room)
