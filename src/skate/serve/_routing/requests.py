"""One call on its way from a handle to a replica and back.

    waiting (for its arguments, for a replica) ──► sent: `ref` ──► settled: `outcome`
          ▲                                          │
          └─────────── refused: the replica was full or about to stop

Whoever wants the value first claims it; otherwise the router looks at it when it comes, so that a
refusal is noticed although nobody asks. Guarded by the router's lock.
"""

from __future__ import annotations

import concurrent.futures
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeAlias

import skate.engine as _engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from skate import ObjectRef, ObjectRefGenerator
    from skate.serve._routing.routed_replica import RoutedReplica
    from skate.serve._routing.router import Router

Call: TypeAlias = "ObjectRef[Any] | ObjectRefGenerator[Any]"  # the second for streams
Arguments: TypeAlias = "tuple[Any, ...]"
NamedArguments: TypeAlias = "dict[str, Any]"

NOT_YET: Any = object()
HTTP = "__http__"  # the method of a request over HTTP that arrived at another process


class RequestRefused:
    """The answer of a replica that does not take a request."""

    __slots__ = ("stopping",)

    def __init__(self, stopping: bool) -> None:
        self.stopping = stopping  # else it is full, and may have room later

    def __reduce__(self) -> tuple[type, tuple[bool]]:
        return RequestRefused, (self.stopping,)


class RequestFailure:
    """An outcome that is an error."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class RoutedRequest:
    """A call, from its handle until it has an outcome."""

    __slots__ = (
        "_sent", "_settled", "answered", "args", "caller", "cancelled", "claimed", "head", "id",
        "is_being_sent", "is_dispatched", "is_reservation", "kwargs", "method", "model_id",
        "outcome", "reached_nobody", "ref", "replica", "route", "router", "session_id", "stream",
        "why_unsent",
    )  # fmt: skip

    def __init__(
        self,
        router: Router,
        id: str,
        method: str,
        args: Arguments,
        kwargs: NamedArguments,
        model_id: str = "",
        stream: bool = False,
        session_id: str = "",
        route: str = "",
    ) -> None:
        self.router: Router = router
        self.id: str = id
        self.method: str = method
        self.args: Arguments = args
        self.kwargs: NamedArguments = kwargs
        self.model_id: str = model_id
        self.stream: bool = stream
        self.session_id: str = session_id
        self.route: str = route  # of the request over HTTP for which this one is made
        self.ref: Any = None  # the Call, once it is sent
        self.replica: RoutedReplica | None = None
        self.outcome: Any = NOT_YET
        self.why_unsent: str = ""  # where more is known than that no replica has room
        # traced sessions: whoever made the call, to go on with that trace when another sends it
        self.caller: Context | None = None if _engine.tracer is None else copy_context()
        self.claimed: bool = stream  # someone waits for the value and will look at it
        self.cancelled: bool = False
        self.answered: bool = False  # the call to the replica has ended, well or badly
        self.is_dispatched: bool = False  # it goes to its `replica` and nowhere else
        self.is_reservation: bool = False  # it only takes room; its outcome is the replica
        self.is_being_sent: bool = False
        # The call had ended before it was sent: nobody was there.
        self.reached_nobody: bool = False
        # What a replica is told before the arguments.
        self.head = method, id, route, model_id
        self._sent: concurrent.futures.Future[None] | None = None
        self._settled: list[Callable[[], None]] | None = None

    def sent(self) -> concurrent.futures.Future[None]:
        """Return a future that is done when there is a `ref`, or an outcome without one. The
        router's lock is held."""
        if self._sent is None:
            self._sent = concurrent.futures.Future()
            if self.ref is not None or self.outcome is not NOT_YET:
                self._sent.set_result(None)
        return self._sent

    def announce(self) -> None:
        """Tell those who wait for `sent`. Without the lock."""
        sent, self._sent = self._sent, None
        if sent is not None and not sent.done():
            sent.set_result(None)

    def settle(self, outcome: object) -> None:
        """Make this the outcome, if there is none yet. Without the lock."""
        with self.router.lock:
            if self.outcome is not NOT_YET:
                return
            self.outcome = outcome
            callbacks, self._settled = self._settled, None
            if self._sent is None and callbacks is None:
                return
        self.announce()
        for callback in callbacks or ():
            callback()

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call `callback` once there is an outcome; at once if there is one."""
        with self.router.lock:
            if self.outcome is NOT_YET:
                self._settled = [*(self._settled or ()), callback]
                return
        callback()
