"""The controller's actor: performs what the state machines decide, and tells them what happened.

    serve.run ── deploy ─► Applications ─► reconcile ─► actions ─► replicas (actors)
                               ▲                                      │
                               └── started, failed, died, checked ◄───┘
    routers, HTTP servers ── listen ─► Publisher (replicas of a deployment, routes)

It sleeps until something happens. What must outlive its process is kept elsewhere (`saved_state`);
the replicas live on by themselves and are found again by their names.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import skate
from skate._core.live_rows import announce
from skate._core.measurements import announce_measurements
from skate.serve._application.options import DeploymentOptions
from skate.serve._application.specs import ApplicationSpec
from skate.serve._controller.applications import Applications, live_rows_of
from skate.serve._controller.deployment_actors import DeploymentActors
from skate.serve._controller.deployment_state import DeploymentState
from skate.serve._controller.publisher import Publisher
from skate.serve._controller.replica_manager import ReplicaManager
from skate.serve._controller.saved_state import ControllerState, SavedState
from skate.serve._controller.scaling import Scaling
from skate.serve._controller.slow_starts import late_starts, reason_for_delay
from skate.serve._identity import INGRESSES, DeploymentID, ReplicaID
from skate.serve._measurements import of_applications
from skate.serve._routing.routed_replica import ReplicaEntry
from skate.serve._routing.routing_table import RoutingTable
from skate.serve._status import ApplicationStatus, ProxyStatus, ReplicaRank, ServeStatus

if TYPE_CHECKING:
    from skate.serve._http.answers import Message
    from skate.serve._http.control_socket import ControlSocket
    from skate.serve._http.peer import PortInvitation
    from skate.serve._http.port_owner import PortOwner
    from skate.serve.config import HTTPOptions

_REOPEN_SECONDS = 0.2  # between tries to open the port of a former controller
_STATE = ("state",)  # is published: what must outlive this process
_ALL_GONE = (
    "the controller, its saved state, all replicas and the process that started them ended at "
    "once, and with them what was deployed; call serve.run again"
)
_SETTLED = (ApplicationStatus.RUNNING, ApplicationStatus.DEPLOY_FAILED)


logger = logging.getLogger("skate.serve")


class ServeController:
    """One per instance of serving."""

    def __init__(self, http: HTTPOptions | None = None) -> None:
        """Keep `http`, what it was started with, in case that nobody else remembers it."""
        self._given_http = http
        self._unknown = "there is no such deployment"
        self._apps = Applications()
        self._publisher = Publisher()
        self._manager = ReplicaManager(self._happened, self._invitation)
        self._saved_state = SavedState()
        self._scaling = Scaling(self._apps)
        self._actors = DeploymentActors()
        self._waiters: list[asyncio.Event] = []
        self._main: asyncio.Task[None] | None = None
        self._http: HTTPOptions | None = None
        self._target_capacity: float | None = None  # as the last config file said
        self._configs: dict[str, dict[str, Any]] = {}  # of config files, by application
        self._port: PortOwner | None = None
        self._control: ControlSocket | None = None
        self._ready: asyncio.Event | None = None
        announce("deployments", self._apps, live_rows_of)
        announce_measurements(self._apps, of_applications)

    # -- what others ask for -------------------------------------------------------------------

    async def open(self, options: HTTPOptions | None) -> tuple[str, str, int] | None:
        """Answer HTTP, with these options, if it is not done yet; return scheme, host and port."""
        await self._is_up()
        async with self._opening:
            if self._port is None and options is not None:
                await self._open_port(options, [])
                self._save()
        return None if self._port is None else self._port.url_parts

    async def http_options(self) -> HTTPOptions | None:
        """Return what it answers HTTP with; None if it does not."""
        await self._is_up()
        return self._http

    async def close(self) -> None:
        """Give the port back, and do nothing more by itself."""
        self._manager.end()
        if self._port is not None and self._control is not None:
            self._control.close()
            self._port.close()

    async def _open_port(self, options: HTTPOptions, lenders: list[str]) -> None:
        from skate.serve._http.control_socket import ControlSocket
        from skate.serve._http.port_owner import PortOwner

        port = PortOwner(options)
        await port.open(lenders)
        port.set_routes(self._apps.routes())
        # The port as it turned out: a controller that comes after this one opens the same.
        self._http, self._port = options.copy(update={"port": port.url_parts[2]}), port
        self._control = ControlSocket(self, port.folder, port.url_parts[2])
        await self._control.open()

    async def deploy(
        self, specs: list[ApplicationSpec], capacity: Sequence[float | None] = ()
    ) -> None:
        """Make these the targets of their applications; `capacity` is that of a config file, which
        was applied to them, if they are from one. `remember` then says so: until it does, they
        are the program's, which no config file ends."""
        await self._is_up()
        for spec in specs:
            self._apps.deploy(spec)
            self._configs.pop(spec.name, None)
        for percent in capacity:
            self._target_capacity = percent
        self._save()
        self._happened()

    async def fail(self, reasons: dict[str, str]) -> None:
        """Note why applications, by their names, could not be made of what a config says."""
        await self._is_up()
        for name, reason in reasons.items():
            self._apps.fail(name, reason, time.time())
        self._save()
        self._happened()

    async def remember(self, configs: dict[str, dict[str, Any]]) -> None:
        """Keep what a config file said, by application."""
        await self._is_up()
        self._configs.update(configs)
        self._save()

    async def config(self) -> dict[str, dict[str, Any]]:
        """Return what config files said of the applications that are still there."""
        await self._is_up()
        there = {*self._apps.specs, *self._apps.failures}
        return {name: said for name, said in self._configs.items() if name in there}

    async def wait_until_settled(self, names: list[str]) -> list[tuple[ApplicationStatus, str]]:
        """Return status and message of each application, once all run, have failed or are gone."""
        await self._is_up()
        while True:
            found = [self._apps.status(name) for name in names]
            if all(s in _SETTLED or s == ApplicationStatus.NOT_STARTED for s, _ in found):
                return found
            await self._next_change()

    def waits_because(self, method: str) -> str | None:
        """Return which applications do not run yet, for whom asks why they are waited for."""
        if method != "wait_until_settled":
            return None
        found = {name: self._apps.status(name) for name in self._apps.specs}
        late = [
            f"application {name!r} is {status.value}{': ' * bool(message)}{message}"
            for name, (status, message) in found.items()
            if status not in _SETTLED
        ]
        return "; ".join(late)

    async def delete(self, names: list[str]) -> None:
        """Have these applications end."""
        await self._is_up()
        self._apps.delete(names)
        self._save()
        self._happened()

    async def wait_until_gone(self, names: list[str]) -> None:
        """Return when none of these applications is left."""
        await self._is_up()
        while any(name in self._apps.specs for name in names):
            await self._next_change()

    async def shut_down(self) -> None:
        """End all applications; those who wait for it in `until_shut_down` do the rest."""
        names = await self.names()
        await self.delete(names)
        await self.wait_until_gone(names)
        await self.close()
        self._is_shut_down.set()

    @skate.method(enable_task_events=False)
    async def until_shut_down(self) -> None:
        """Return when someone has asked for the end of this instance."""
        await self._is_up()
        await self._is_shut_down.wait()

    async def names(self) -> list[str]:
        """Return the names of all applications."""
        await self._is_up()
        return list(self._apps.specs)

    async def ingress_of(self, name: str) -> str | None:
        """Return the deployment that an application is called by; None without application."""
        await self._is_up()
        spec = self._apps.specs.get(name)
        return None if spec is None else spec.ingress

    async def ingresses(self) -> dict[str, str]:
        """Return the deployments in front, by application."""
        await self._is_up()
        return self._apps.ingresses()

    async def routes(self) -> dict[str, DeploymentID]:
        """Return who answers below which prefix."""
        await self._is_up()
        return self._apps.routes()

    async def has_deployment(self, id: DeploymentID) -> bool:
        """Return whether there is such a deployment."""
        await self._is_up()
        return id in self._apps.deployments

    async def options(self) -> dict[DeploymentID, DeploymentOptions]:
        """Return the options of all deployments."""
        await self._is_up()
        return {id: state.spec.options for id, state in self._apps.deployments.items()}

    async def ranks(self, id: DeploymentID) -> dict[str, ReplicaRank]:
        """Return the ranks of a deployment's replicas, by their names."""
        await self._is_up()
        state = self._apps.deployments.get(id)
        replicas = {} if state is None else state.replicas
        return {tag: ReplicaRank(record.rank) for tag, record in replicas.items()}

    async def status(self) -> ServeStatus:
        """Return how everything is doing."""
        await self._is_up()
        node = skate.get_runtime_context().get_node_id()
        proxies = {} if self._port is None else {node: ProxyStatus.HEALTHY}
        overview = self._apps.overview(await self._reasons_for_delay())
        return ServeStatus(proxies, overview, self._target_capacity)

    async def _reasons_for_delay(self) -> dict[DeploymentID, str]:
        states = self._apps.deployments
        late = late_starts(states.values(), time.monotonic())
        if not late:
            return {}
        available = await asyncio.to_thread(skate.available_resources)
        return {
            id: reason_for_delay(count, states[id].spec.options, available)
            for id, count in late.items()
            if id in states
        }

    @skate.method(enable_task_events=False)
    async def listen(self, key: tuple[str, ...], version: str) -> tuple[str, Any]:
        """Return (version, value) of what is published under the key, once it is not this."""
        await self._is_up()
        if key not in self._publisher:
            self._publisher.publish(key, RoutingTable(unavailable=self._unknown))
        return await self._publisher.listen(key, version)

    @skate.method(enable_task_events=False)
    async def next_state(
        self, state: ControllerState | None, version: str
    ) -> tuple[str, ControllerState]:
        """Return the next state, for the process that started this one, as a backup. It tells the
        last that it knows, which a controller that was just restarted may need."""
        self._saved_state.receive_backup(state)
        await self._is_up()
        if _STATE not in self._publisher:
            self._publisher.publish(_STATE, state)
        return await self._publisher.listen(_STATE, version)

    async def has_models(self, id: ReplicaID, models: tuple[str, ...]) -> None:
        """Note which models a replica has loaded."""
        state = self._apps.deployments.get(id.deployment_id)
        if state is not None:
            state.has_models(id.unique_id, models)
            self._happened()

    async def report(self, id: DeploymentID, reporter: str, kind: str, value: float) -> None:
        """Note how many requests a replica answers ("running") or a router queues ("queued")."""
        await self._is_up()
        if self._scaling.report(id, time.monotonic(), reporter, kind, value):
            self._happened()

    async def record_stats(self, id: ReplicaID, stats: dict[str, float]) -> None:
        """Note what the code of a replica has measured, for policies of the user's."""
        await self._is_up()
        if self._scaling.record(id, time.monotonic(), stats):
            self._happened()

    async def record_routing_stats(self, id: ReplicaID, stats: bytes) -> None:
        """Note what the code of a replica has measured, for routers of the user's."""
        state = self._apps.deployments.get(id.deployment_id)
        if state is not None:
            state.has_stats(id.unique_id, stats)
            self._happened()

    async def read_upload(self, key: str, position: int) -> Message:
        """Return a piece of a body that arrived here, to the replica that answers."""
        from skate.serve._http.uploads import read_upload

        return await read_upload(key, position)

    # -- the loop ------------------------------------------------------------------------------

    async def _is_up(self) -> None:
        """Find what was there before, with the first call; every call begins with this."""
        while self._main is None:
            if self._ready is None:
                await self._come_up()
            else:
                await self._ready.wait()

    async def _come_up(self) -> None:
        self._ready = ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_shut_down = asyncio.Event()
        self._opening = asyncio.Lock()
        try:
            await self._recover()
            self._step()
            self._main = self._manager.spawn(self._run())
        finally:
            self._ready = None  # if it failed, whoever waits tries it
            ready.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            self._step()
            try:
                await asyncio.wait_for(self._changed.wait(), self._pause())
            except asyncio.TimeoutError:
                pass

    def _pause(self) -> float | None:
        times = [state.next_time for state in self._apps.deployments.values()]
        known = [moment for moment in (*times, self._scaling.next_time) if moment is not None]
        return max(0.0, min(known) - time.monotonic()) if known else None

    def _step(self) -> None:
        now = time.monotonic()
        if self._scaling.step(now):
            self._save()
        self._apps.go_on_deleting()
        for state in list(self._apps.deployments.values()):
            for action in state.reconcile(now):
                self._manager.perform(state, action)
        gone = self._apps.tidy()
        self._actors.step(self._apps.deployments)
        self._publish(gone)
        self._invite()
        if gone:
            self._happened()  # others may have waited for these to end
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set()

    def _invitation(self, id: ReplicaID) -> PortInvitation | None:
        """Return what a replica needs to answer HTTP; None if it is not to."""
        answers = self._port is not None and self._apps.answers_http(id.deployment_id)
        return self._port.invitation if self._port is not None and answers else None

    def _invite(self, again: bool = False) -> None:
        """Invite those to answer HTTP who do not yet, for a route may be new; or all, again."""
        if self._port is not None:
            for id in self._apps.routes().values():
                self._manager.invite_all(self._apps.deployments[id], again)

    def _happened(self) -> None:
        self._changed.set()

    async def _next_change(self) -> None:
        waiter = asyncio.Event()
        self._waiters.append(waiter)
        await waiter.wait()

    def _publish(self, gone: list[DeploymentID]) -> None:
        for id in gone:
            self._scaling.forget(id)
            table = RoutingTable(unavailable="it has been deleted")
            self._publisher.publish(_key(id), table)
        for id, state in self._apps.deployments.items():
            self._publisher.publish(_key(id), self._table(state))
        self._publisher.publish(INGRESSES, self._apps.ingresses())
        if self._port is not None:
            self._port.set_routes(self._apps.routes())

    def _table(self, state: DeploymentState) -> RoutingTable:
        options = state.spec.options
        serving = tuple(
            ReplicaEntry(
                tag, self._manager.actors[tag], record.models, record.stats, record.metadata
            )
            for tag, record in state.replicas.items()
            if record.serves and tag in self._manager.actors
        )
        failed = state._has_failed() and not serving
        return RoutingTable(
            serving,
            options.max_ongoing_requests,
            options.max_queued_requests,
            options.backpressure,
            state.message if failed else "",
            options.autoscaling.metrics_interval_s if options.autoscaling else 0,
            options.router,
            state.spec.version,
        )

    # -- the saved state -----------------------------------------------------------------------

    def _save(self) -> None:
        wanted = {id: state.wanted for id, state in self._apps.deployments.items()}
        live = [s for s in self._apps.specs.values() if s.name not in self._apps.deleting]
        state = ControllerState(
            time.time(),
            live,
            wanted,
            self._http,
            self._target_capacity,
            self._configs,
            {name: (why, self._apps.times[name]) for name, why in self._apps.failures.items()},
        )
        self._saved_state.save(state)
        self._manager.save_state(state)
        self._publisher.publish(_STATE, state)

    async def _recover(self) -> None:
        saved = await self._saved_state.load_last()
        self._manager.spawn(self._saved_state.replace_lost_store(self._save))
        if saved is None and skate.get_runtime_context().was_current_actor_reconstructed:
            saved = await self._saved_state.wait_for_backup()
            if saved is None:
                await self._begin_anew()
        if saved is None:
            return
        for spec in saved.applications:
            self._apps.deploy(spec)
        for id, count in saved.replica_counts.items():
            if id in self._apps.deployments:
                self._apps.deployments[id].wanted = count
        self._http, self._target_capacity = saved.http, saved.target_capacity
        self._configs = saved.configs
        for name, (reason, moment) in saved.failures.items():
            self._apps.fail(name, reason, moment)
        self._actors.find()
        addresses = await self._manager.adopt(self._apps.deployments)
        self._save()
        if saved.http is not None:
            await self._reopen(saved.http, addresses)

    async def _begin_anew(self) -> None:
        """Begin with nothing, as nobody is left who knows what was deployed."""
        self._unknown = _ALL_GONE
        logger.error("Serve: %s", _ALL_GONE)
        if self._given_http is not None:
            await self._reopen(self._given_http, [])

    async def _reopen(self, options: HTTPOptions, addresses: list[str]) -> None:
        """Open the port again. It is still open in the replicas: one of them lends it. Where none
        can, because it is busy or about to die, it may take a moment until it can be had."""
        try:
            await self._open_port(options, addresses)
        except RuntimeError:
            self._manager.spawn(self._reopen_later(options, addresses))
        else:
            self._invite(again=True)

    async def _reopen_later(self, options: HTTPOptions, addresses: list[str]) -> None:
        await asyncio.sleep(_REOPEN_SECONDS)
        await self._reopen(options, addresses)


def _key(id: DeploymentID) -> tuple[str, str, str]:
    return ("replicas", id.app_name, id.name)
