"""Requests whose replicas a router of the user's chooses, on an event loop of its own.

    Router.assign ──► a task per request: choose_replicas ──► a replica with room ──► sent
                          ▲                                          │ none
                          └─ its turn: a request ended, the replicas changed, a pause is over

What waits, what was sent and who has room, the `Router` knows as it always does; this is who
decides instead of it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import pickle
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle

import skate
from skate._core.argument_checks import wrong_value
from skate.serve._identity import DeploymentID, ReplicaID
from skate.serve._routing.requests import HTTP, NOT_YET, RoutedRequest
from skate.serve._routing.waiting_line import QueuedRequest, WaitingLine
from skate.serve.exceptions import RequestCancelledError
from skate.serve.request_router import (
    PendingRequest,
    PowerOfTwoChoicesRequestRouter,
    RequestMetadata,
    RequestRouter,
    RunningReplica,
)

if TYPE_CHECKING:
    from skate.serve._routing.routed_replica import RoutedReplica
    from skate.serve._routing.router import Router
    from skate.serve._routing.routing_table import RoutingTable
    from skate.serve.config import RequestRouterConfig

logger = logging.getLogger("skate.serve")

_PATIENCE_S = 10  # with a router that chooses no replica, before a line says so
_SHORTEST_PAUSE_S = 0.001  # before a router is asked again: it must not keep a processor busy


class RouterPlan(NamedTuple):
    """Which router of the user's decides, as routers are told; the class stays pickled until
    then, as the controller has no use for it."""

    made_by: bytes  # the class, and what its `initialize_state` takes
    initial_backoff_s: float
    backoff_multiplier: float
    max_backoff_s: float


def plan_of(config: RequestRouterConfig | None) -> RouterPlan | None:
    """Return what a config asks for; None where it is the usual router.

    Raises:
        TypeError: If its class is no RequestRouter, or lacks methods of one.
        ValueError: If the usual router is given arguments.
    """
    if config is None:
        return None
    kind = config.get_request_router_class()
    if kind is PowerOfTwoChoicesRequestRouter:
        if config.request_router_kwargs:
            allowed = "{} without a request_router_class of your own, whose they are"
            raise wrong_value("request_router_kwargs", config.request_router_kwargs, allowed)
        return None
    if not (isinstance(kind, type) and issubclass(kind, RequestRouter)):
        raise TypeError(
            "request_router_class takes a class derived from "
            f"serve.request_router.RequestRouter, or the path to one; got {kind!r}"
        )
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        raise TypeError(
            f"request_router_class takes a class that can be made; {kind.__name__} does not "
            f"define {', '.join(missing)}"
        )
    made_by = cloudpickle.dumps((kind, config.request_router_kwargs))
    return RouterPlan(
        made_by, config.initial_backoff_s, config.backoff_multiplier, config.max_backoff_s
    )


class _Pending(NamedTuple):
    """A request that waits."""

    described: PendingRequest  # as routers of users see it
    queued: QueuedRequest


@dataclass
class _Refusals:
    """How often a router has chosen no replica for a request, and since when it is asked."""

    since: float
    count: int = 0

    def told(self, kind: type[RequestRouter]) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"choose_replicas of {kind.__name__} has returned no replica {times}"


class UserRouting:
    """Has a router of the user's choose for one `Router`."""

    def __init__(self, router: Router, plan: RouterPlan) -> None:
        self.plan = plan
        self._router = router
        self._pending: dict[RoutedRequest, _Pending] = {}
        self._user: RequestRouter | None = None
        self._has_warned = False  # that it chooses no replica
        self._failure = Exception()  # why there is no `_user`; requests fail with it
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._line = WaitingLine(router.free_places)
        self._tasks: set[asyncio.Task[None]] = set()
        # Before all that it is told. Nobody waits for the user's code: the router's lock is held.
        self._loop.call_soon(self._make_user)
        threading.Thread(target=self._run, name="skate-serve-routing", daemon=True).start()

    # -- what the router tells, on any thread --------------------------------------------------

    def add(self, request: RoutedRequest) -> None:
        """Find a replica for a request that waits."""
        self._soon(self._begin, request)

    def wake(self) -> None:
        """Ask again for those that wait, as many as there are places: a replica may have room."""
        self._soon(self._line.tell)

    def update(self, replicas: Iterable[RoutedReplica], table: RoutingTable) -> None:
        """Choose among these replicas of the table from now on."""
        id, most = self._router.id, table.max_ongoing_requests
        shown = [RunningReplica(id, each, most) for each in replicas]
        self._soon(self._update, shown, table.version)

    def note_death(self, replica: RoutedReplica) -> None:
        """Tell that a replica is gone."""
        self._soon(self._call_user, "on_replica_actor_died", self._id_of(replica))

    def note_answer(self, request: RoutedRequest, replica: RoutedReplica) -> None:
        """Tell that a request was answered."""
        self._soon(self._answered, request, replica)

    def end(self) -> None:
        """Choose no more."""
        self._soon(self._ended.set)

    def _soon(self, function: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(function, *args)

    # -- on the loop ---------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        await self._ended.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}  # the user's, too
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _make_user(self) -> None:
        try:
            kind, arguments = pickle.loads(self.plan.made_by)
            user = _made(kind, self._router.id)
            user.initialize_state(**arguments)
            self._user = user
        except Exception as error:
            self._failure = error

    def _update(self, replicas: list[RunningReplica], version: str) -> None:
        if self._user is not None:
            self._user._newest_version = version
        self._call_user("update_replicas", replicas)
        self._line.wake_all()

    def _begin(self, request: RoutedRequest) -> None:
        self._pending[request] = _Pending(_described(request), self._line.join())
        task = self._loop.create_task(self._route(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        request.when_settled(lambda: None if task.done() else self._soon(task.cancel))

    async def _route(self, request: RoutedRequest) -> None:
        """Ask until the request has a replica, or an outcome without one, which cancels this."""
        pause, offer = self.plan.initial_backoff_s, None
        refusals = _Refusals(self._loop.time())
        described, queued = self._pending[request]
        try:
            while request in self._pending and request.outcome is NOT_YET:
                seen = self._line.news
                if self._send_one(await self._choose(described, request, refusals), request):
                    self._line.took(offer)
                    offer = None
                    continue
                self._line.pass_on(offer)
                offer = await self._line.sleep(queued, seen, max(pause, _SHORTEST_PAUSE_S))
                pause = min(pause * self.plan.backoff_multiplier, self.plan.max_backoff_s)
        except Exception as error:
            self._router.give_up(request, error)
        except asyncio.CancelledError:
            if not self._ended.is_set():  # else another router chooses from now on
                self._router.give_up(request, RequestCancelledError(request.id))
            raise
        finally:
            self._line.pass_on(offer)
            if self._pending.pop(request, None) is not None:  # it was not sent
                self._call_user("on_request_cancelled", _internal_id(request))

    async def _choose(
        self, pending: PendingRequest, request: RoutedRequest, refusals: _Refusals
    ) -> list[list[RunningReplica]]:
        if self._user is None:
            raise self._failure
        candidates = list(self._user.curr_replicas.values())
        if not candidates:
            return []
        chosen: object = self._user.choose_replicas(candidates, pending)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        ranks = _ranks(type(self._user), chosen)
        if not any(ranks):
            refusals.count += 1
            request.why_unsent = refusals.told(type(self._user))
            self._warn_of(request, refusals)
        return ranks

    def _warn_of(self, request: RoutedRequest, refusals: _Refusals) -> None:
        """Say once that a request has waited for long because the router wants no replica."""
        if not self._has_warned and self._loop.time() - refusals.since >= _PATIENCE_S:
            self._has_warned = True
            logger.warning(
                "request %s of %s waits: %s", request.id, self._router.id, request.why_unsent
            )

    def _send_one(self, ranks: list[list[RunningReplica]], chosen_for: RoutedRequest) -> bool:
        """Send a request to one of these that has room; return whether there was one."""
        request = self._next(chosen_for)
        if request not in self._pending:  # it was sent in another's turn, while that was asked
            return False
        for rank in ranks:
            replica = self._router.send_to(request, [each._replica for each in rank])
            if replica is not None:
                described, queued = self._pending.pop(request)
                queued.wake()  # if it was not its turn: it waits no more
                self._call_user("on_request_routed", described, self._id_of(replica), request.ref)
                return True
        return False

    def _next(self, request: RoutedRequest) -> RoutedRequest:
        """Return whose turn it is, if this one finds a replica; others of its model come first."""
        if self._user is None or not self._user.takes_turns:
            return request
        waiting = (each for each in self._pending if each.outcome is NOT_YET)
        same = (each for each in waiting if request.model_id in ("", each.model_id))
        return next(same, request)

    def _answered(self, request: RoutedRequest, replica: RoutedReplica) -> None:
        self._call_user("on_request_completed", self._id_of(replica), _internal_id(request))

    def _call_user(self, method: str, *args: object) -> None:
        if self._user is None:
            return
        try:
            getattr(self._user, method)(*args)
        except Exception:
            logger.exception("%s of the request router of %s failed", method, self._router.id)

    def _id_of(self, replica: RoutedReplica) -> ReplicaID:
        return ReplicaID(replica.tag, self._router.id)


def _made(kind: type[RequestRouter], id: DeploymentID) -> RequestRouter:
    """Make an instance of the user's class, with what Ray gives to one."""
    node = skate.get_runtime_context().get_node_id()
    return kind(deployment_id=id, self_node_id=node, prefer_local_node_routing=False)


def _ranks(kind: type[RequestRouter], chosen: Any) -> list[list[RunningReplica]]:
    """Return what a router chose.

    Raises:
        TypeError: If these are no lists of replicas.
    """
    try:
        ranks = [list(rank) for rank in chosen or ()]
        if all(isinstance(each, RunningReplica) for rank in ranks for each in rank):
            return ranks
    except TypeError:
        pass  # something that is no list
    raise TypeError(
        f"choose_replicas of {kind.__name__} returns lists of the replicas that it was given, the "
        f"best list first, such as [candidate_replicas]; got {chosen!r}"
    )


def _described(request: RoutedRequest) -> PendingRequest:
    """Return the request as routers of users see it."""
    id, args, kwargs = request.id, list(request.args), dict(request.kwargs)
    route, is_http = "", request.method == HTTP
    if is_http:
        context, scope, *_ = args
        id, args, route = context.request_id, [scope], context.route
    metadata = RequestMetadata(
        id,
        _internal_id(request),
        "__call__" if is_http else request.method,
        route,
        request.router.id.app_name,
        request.model_id,
        request.session_id,
        request.stream,
        is_http,
    )
    return PendingRequest(args, kwargs, metadata)


def _internal_id(request: RoutedRequest) -> str:
    return f"{request.id}-{id(request):x}"
