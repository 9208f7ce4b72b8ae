"""What a process knows of serving: the controller, and a router for each deployment it calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import skate
from skate._core.futures import value_now, when_done
from skate.engine import call_at_end
from skate.exceptions import SkateError
from skate.serve._identity import CONTROLLER, NAMESPACE, DeploymentID
from skate.serve._routing.queue_reports import QueueReporter
from skate.serve._routing.router import Router
from skate.serve._routing.routing_table import RoutingTable
from skate.serve.exceptions import SkateServeError

if TYPE_CHECKING:
    from skate.serve._controller.saved_state import ControllerState
    from skate.serve._identity import ControllerHandle

_lock = threading.RLock()
_client: Client | None = None
_orphans: dict[DeploymentID, Router] = {}  # routers that outlived the last controller


class Subscription:
    """A value of the controller's that is told anew whenever it changes."""

    def __init__(
        self, controller: ControllerHandle, key: tuple[str, ...], tell: Callable[[Any], None]
    ) -> None:
        self._controller = controller
        self._key = key
        self._tell = tell
        self._version = ""
        self.on_end: Callable[[BaseException], None] = lambda error: None

    def start(self) -> None:
        """Ask for the value, and from then on for each that follows."""
        self._ask()

    def _ask(self) -> None:
        self._ref = self._controller.listen.remote(self._key, self._version)
        when_done(self._ref, self._answered)

    def _answered(self) -> None:
        try:
            self._version, value = value_now(self._ref)
        except SkateError as error:  # the controller was shut down, or the whole session
            self.on_end(error)
            return
        self._tell(value)
        if skate.is_initialized():  # asking would start another session
            self._ask()


class StateBackup(Subscription):
    """Has the controller's state at hand, in the process that started it.

    The call that waits for the next state carries the last one, and is sent again to a
    controller that was restarted: it wakes up by that, and recalls what nobody else survived to
    tell.
    """

    def __init__(self, controller: ControllerHandle) -> None:
        super().__init__(controller, (), self._keep)
        self._state: ControllerState | None = None

    def _keep(self, state: ControllerState) -> None:
        self._state = state

    def _ask(self) -> None:
        self._ref = self._controller.next_state.remote(self._state, self._version)
        when_done(self._ref, self._answered)


class Client:
    """The controller and this process's routers."""

    def __init__(self, controller: ControllerHandle) -> None:
        self.controller = controller
        self.backup: StateBackup | None = None  # in the process that started the controller
        self._routers: dict[DeploymentID, Router] = {}
        self._queues = QueueReporter()

    def router(self, id: DeploymentID) -> Router:
        """Return the one router of this process for a deployment."""
        with _lock:
            router = self._routers.get(id)
            if router is not None:
                return router
            router = self._routers[id] = Router(id)
            router.on_table = lambda table: self._report_load(router, table)
        news = Subscription(self.controller, ("replicas", id.app_name, id.name), router.update)
        news.on_end = lambda error: self._ended(router, type(error).__name__)
        news.start()
        return router

    def _report_load(self, router: Router, table: RoutingTable) -> None:
        """Report the load to the controller, where it decides on the number of replicas."""
        interval = table.metrics_interval_s
        if not interval:
            router.on_queue = None
            return
        report = self.controller.report

        def tell(reporter: str, waiting: float) -> None:
            report.remote(router.id, reporter, "queued", waiting)

        self._queues.watch(
            router.id, interval, router.waiting, tell, is_urgent=lambda: not router.actors()
        )
        router.on_queue = self._queues.something_waits
        if router.waiting():
            self._queues.something_waits()

    def leave_routers(self) -> list[Router]:
        """Return the routers, which nobody tells of replicas any more."""
        with _lock:
            left = list(self._routers.values())
            self._routers.clear()
            return left

    def _ended(self, router: Router, why: str) -> None:
        global _client
        with _lock:
            self._routers.pop(router.id, None)
            if _client is self:
                _client = None
            outlives = skate.is_initialized()
            if outlives:
                _orphans[router.id] = router
        end = SkateServeError(f"Serve has been shut down ({why})")
        if outlives:
            router.outlive(end)
        else:
            router.close(end)


def connect() -> Client:
    """Return the client of the running instance.

    Raises:
        SkateServeError: If there is none.
    """
    found = find()
    if found is None:
        raise SkateServeError(
            "no Serve instance is running: start one with serve.start() or serve.run(app)"
        )
    return found


def find() -> Client | None:
    """Return the client of the running instance, if there is one."""
    if not skate.is_initialized():
        return None
    try:
        controller = skate.get_actor(CONTROLLER, namespace=NAMESPACE)
    except ValueError:
        return None
    return use(controller)


def use(controller: ControllerHandle) -> Client:
    """Return the client of this controller."""
    global _client
    with _lock:
        if _client is None or _client.controller != controller:
            _client = Client(controller)
            _orphans.clear()
            call_at_end(_close)
        return _client


def forget() -> None:
    """Know nothing of the instance that has ended."""
    global _client
    with _lock:
        _client = None
        _orphans.clear()


def _close() -> None:
    """End what belongs to the session that ends, where nobody has called `serve.shutdown`."""
    with _lock:
        routers = list(_orphans.values())
        if _client is not None:
            routers += _client.leave_routers()
    forget()
    for router in routers:
        router.close(SkateServeError("Serve has been shut down (the session has ended)"))


def router_of(id: DeploymentID) -> Router:
    """Return the router of a deployment, by what this process knows or can find out.

    Without a controller, it is the one that knows the replicas which that has left behind.

    Raises:
        SkateServeError: If there is neither a controller nor such a router.
    """
    client = _client or find()
    if client is None:
        orphan = _orphans.get(id)
        if orphan is not None and not orphan.closed:
            return orphan
    return (client or connect()).router(id)
