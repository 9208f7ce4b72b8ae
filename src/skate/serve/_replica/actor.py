"""A replica: the actor around one instance of the user's class or function.

    router ── handle_request, handle_stream ──► begin ─► user code ─► end
    HTTP server (same event loop) ────────────►
    controller ── start, reconfigure, check_health, drain, ended

One event loop per replica. A request beyond `max_ongoing_requests`, or one that comes while the
replica is about to stop, is refused (`request_counts`): the router sends it elsewhere.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

import skate
from skate._core.live_rows import announce
from skate._core.measurements import announce_measurements
from skate._core.serialization import loads
from skate.serve import _client
from skate.serve import context as serve_context
from skate.serve._application.options import DeploymentOptions
from skate.serve._application.specs import DeploymentSpec
from skate.serve._identity import NAMESPACE, DeploymentID, ReplicaID
from skate.serve._measurements import of_replica
from skate.serve._replica.child_calls import cancel_children, settle_children
from skate.serve._replica.deployment_actors import SharedActors
from skate.serve._replica.load_reports import ReplicaLoad
from skate.serve._replica.logs import ReplicaLogs
from skate.serve._replica.replica_info import ReplicaInfo
from skate.serve._replica.request_counts import RequestCounts
from skate.serve._replica.stats_reports import StatsPlan, StatsReports, dictionary
from skate.serve._replica.termination import end_gently_on_sigterm
from skate.serve._replica.threads import UserCodeThreads, limit_other_threads
from skate.serve._replica.user_code import UserCode
from skate.serve._routing.requests import HTTP, RequestRefused
from skate.serve._routing.routed_replica import packed
from skate.serve._status import ReplicaRank
from skate.serve.context import ReplicaContext, RequestContext
from skate.serve.exceptions import SkateServeError
from skate.serve.gang import GangContext

if TYPE_CHECKING:
    from skate.actor import ActorMethod
    from skate.serve._controller.saved_state import StateReference
    from skate.serve._http.answers import Message, Scope
    from skate.serve._http.peer import PortInvitation, ReplicaPeer
    from skate.serve._http.replica_app import ReplicaApp
    from skate.serve._http.uploads import UploadReference
    from skate.serve._identity import ControllerHandle

# Methods that the user's class may have.
_STATS = "record_autoscaling_stats"
_ROUTING_STATS = "record_routing_stats"
_METADATA = "record_replica_metadata"
_CHECK_CONSUMING = "__serve_check_consuming__"  # of a consumer of tasks

LIFE_SIGNS = "life signs"  # the concurrency group of `is_alive`

# What gives the task its context back, the request, and when it began.
_Begun = tuple[contextvars.Token["RequestContext | None"], RequestContext, float]


def _streaming(name: str, may_refuse: bool) -> Any:
    """Make the method of a replica that answers streaming calls. One function for both, as a
    generator inside of another would not end with it."""

    async def handle(
        self: Replica,
        method: str,
        id: str,
        route: str,
        model_id: str,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        if may_refuse and self.refuses():
            yield RequestRefused(self.stopping)
            return
        if method == HTTP:
            request, scope, body, rest = args  # of the process that has the connection
            items: AsyncIterator[Any] = self.answer_http(scope, body, rest)
        else:
            request = self._request(id, route, model_id)
            items = self.code.stream(method, args, kwargs)
        (_, _, since), failure = self.begin(request), ""
        try:
            yield None
            async for item in items:
                yield item
        except (asyncio.CancelledError, GeneratorExit):
            cancel_children(request)
            raise
        except Exception as error:
            failure = type(error).__name__
            raise
        finally:
            settle_children(request)
            if self.logs is not None and self.logs.has_access_log and method != HTTP:
                self.logs.log_call(method, time.monotonic() - since)
            # The generator may be closed in another context than it began in.
            self._count_out(request.pattern, since, failure)

    handle.__name__, handle.__qualname__ = name, f"Replica.{name}"
    return skate.method(num_returns="streaming")(handle)


class Replica(RequestCounts):
    """Made by the controller, as an actor of its own."""

    def __init__(
        self,
        id: ReplicaID,
        spec: DeploymentSpec,
        controller: ControllerHandle | None,
        saved_state: StateReference = None,
    ) -> None:
        super().__init__()
        self.id = id
        self.spec = spec
        self.options: DeploymentOptions = spec.options
        self.controller = controller
        self._saved_state = saved_state
        self.context = ReplicaContext(id, None, self.options)
        self._is_up = False
        self._shared_actors = SharedActors(id.deployment_id, spec.version)
        self._starting: asyncio.Task[Any] | None = None
        self.models: tuple[str, ...] = ()
        self.http: ReplicaPeer | None = None  # in a replica that answers HTTP
        self._app: ReplicaApp | None = None
        self._stats: list[StatsReports] = []
        self._metadata = b""
        self.logs: ReplicaLogs | None = None
        announce("replicas", self, live_rows_of)
        announce_measurements(self, of_replica)

    @property
    def deployment_id(self) -> DeploymentID:
        return self.id.deployment_id

    @property
    def is_in_service(self) -> bool:
        """Whether it takes requests."""
        return self._is_up and not self.stopping

    @property
    def callable(self) -> object:
        """The user's instance or function."""
        return self.code.instance

    def __repr__(self) -> str:
        return self.deployment_id.to_replica_actor_class_name()

    def waits_because(self, method: str) -> str | None:
        """Return whose request it is, and where functions are that run in threads."""
        if not method.startswith("handle_"):
            return None
        places = self.code.places()
        where = f", whose functions are at {'; '.join(places)}" * bool(places)
        return f"a request to the deployment {self.deployment_id.name!r}{where}"

    # -- the controller's calls ----------------------------------------------------------------

    async def start(
        self, rank: int, world_size: int, controller_pid: int, gang: GangContext | None = None
    ) -> ReplicaInfo:
        """Make the user's instance; return what the controller wants to know about it."""
        self._starting = asyncio.current_task()
        if self.controller is not None:
            _client.use(self.controller)
        target, args, kwargs, shared = loads(self.spec.code)
        self._shared_actors = SharedActors(self.deployment_id, self.spec.version, shared)
        self.code = UserCode(target, args, kwargs, self.max_ongoing_requests)
        self.context = ReplicaContext(
            self.id,
            None,
            self.options,
            ReplicaRank(rank),
            world_size,
            self._models_changed,
            self.spec.version,
            gang,
        )
        self._owns_process = os.getpid() != controller_pid
        if self._owns_process:
            end_gently_on_sigterm(self)
        self._enter()
        self._plan_logs()
        self._plan_reports()
        await self._shared_actors.start()
        await self.code.construct()
        self._limit_threads()
        self.context.servable_object = self.code.instance
        if self.options.user_config is not None:
            await self._give_user_config()
        await self.check_health()
        if self.code.has(_METADATA):
            self._metadata = packed(dictionary(_METADATA, await self._measure(_METADATA)))
        self._plan_stats()
        self._is_up = True
        return self.describe_now()

    def describe_now(self) -> ReplicaInfo:
        """Return what the controller wants to know of this replica."""
        return ReplicaInfo(
            self.spec.version,
            self.options,
            self.code.has("check_health")
            or self.code.has(_CHECK_CONSUMING)
            or bool(self._shared_actors),
            self._owns_process,
            self.models,
            None if self.http is None else self.http.address,
            self._metadata,
            getattr(self.code.app, "docs_url", None),
            self.context.gang_context,
        )

    async def describe(self) -> ReplicaInfo:
        """Describe this replica to a controller that found it running.

        Raises:
            SkateServeError: If it does not run yet.
        """
        if not self._is_up:
            raise SkateServeError(f"{self} was not complete")
        return self.describe_now()

    async def reconfigure(self, options: DeploymentOptions) -> None:
        """Use these options from now on."""
        before = self.options
        self.options = self.context.options = options
        self.code.resize(options.max_ongoing_requests)
        self._limit_threads()
        if options.logging != before.logging:
            self._plan_logs()
        self._plan_reports()
        self._plan_stats()
        if options.user_config != before.user_config:
            self._enter()
            await self._give_user_config()
        self._tell_room()

    def _limit_threads(self) -> None:
        if self._owns_process:  # else the loop is that of others, too
            limit_other_threads(self.max_ongoing_requests)

    def _plan_logs(self) -> None:
        self._end_logs()
        self.logs = ReplicaLogs(self.context, self.options.logging, self._owns_process)

    def _end_logs(self) -> None:
        if self.logs is not None:
            self.logs.end()
            self.logs = None

    def _plan_reports(self) -> None:
        """Report the load to the controller, where it decides on the number of replicas."""
        scaling, controller = self.options.autoscaling, self.controller
        self._load = None
        if scaling is None or controller is None:
            return

        def report(ongoing: float) -> None:
            controller.report.remote(self.deployment_id, self.id.unique_id, "running", ongoing)

        self._load = ReplicaLoad(report, scaling.metrics_interval_s)

    def _plan_stats(self) -> None:
        """Report what the user's code measures, for policies and routers of the user's."""
        self._end_stats()
        controller, options = self.controller, self.options
        if controller is None:
            return
        if options.autoscaling is not None:
            interval = options.autoscaling.metrics_interval_s
            self._report(_STATS, controller.record_stats, StatsPlan.of_numbers(interval))
        times = options.routing_stats_period_s, options.routing_stats_timeout_s
        self._report(_ROUTING_STATS, controller.record_routing_stats, StatsPlan(*times))

    def _report(self, method: str, record: ActorMethod[..., Any, Any], plan: StatsPlan) -> None:
        """Report what a method of the user's code returns, if it has this one."""
        if self.code.has(method):
            measure, tell = partial(self._measure, method), partial(record.remote, self.id)
            self._stats.append(StatsReports(method, measure, tell, plan))

    async def _measure(self, method: str, threads: UserCodeThreads | None = None) -> Any:
        self._enter()
        return await self.code.call(method, (), {}, threads)

    def _end_stats(self) -> None:
        for reports in self._stats:
            reports.end()
        self._stats.clear()

    async def _give_user_config(self) -> None:
        if not self.code.has("reconfigure"):
            raise ValueError(
                f"deployment {self.deployment_id.name!r} has a user_config, and nobody to give "
                "it to: define a method reconfigure(self, config), or leave user_config out"
            )
        named = inspect.signature(self.code.instance.reconfigure).parameters
        rank = {"rank": self.context.rank} if "rank" in named else {}
        await self.code.call("reconfigure", (self.options.user_config,), rank)

    @skate.method(concurrency_group=LIFE_SIGNS)
    def is_alive(self) -> None:
        """Return, in a thread of its own, while the process runs and others get at the GIL: code
        of the user may block the event loop for as long as it likes."""

    async def check_health(self) -> None:
        """Call the user's `check_health`, which raises if something is wrong, as a consumer of
        tasks does that has ended. Actors of the deployment that somebody ended begin again; one
        that cannot is wrong too."""
        self._shared_actors.look_after()
        if self.code.has(_CHECK_CONSUMING):
            self.code.instance.__serve_check_consuming__()
        if self.code.has("check_health"):
            self._enter()
            await self.code.call("check_health", (), {})

    async def drain(self) -> None:
        """Take no more requests, finish those that are here, and let the user's code end."""
        if not self._is_up:
            if self._starting is not None:
                self._starting.cancel()
            await self.code.end()
            self._end_logs()
            return
        if self.http is not None:
            await self.stop_listening()
        self._end_stats()
        await self._finish_all()
        self._enter()
        await self.code.end()
        self._end_logs()
        await self._deliver_answers()

    async def _deliver_answers(self) -> None:
        """Wait until answers have arrived, as this process is killed next. What it sends is
        handled in order: when a question is answered, so have been the answers before it."""
        for _ in range(3):  # rounds of the loop, until the last answers are handed over
            await asyncio.sleep(0)
        skate.get_actor(self.id.actor_name, namespace=NAMESPACE)

    async def save_state(self, saved_state: StateReference) -> None:
        """Keep something for the controller that comes after this one."""
        self._saved_state = saved_state

    async def saved_state(self) -> StateReference:
        """Return what was kept."""
        return self._saved_state

    @skate.method(enable_task_events=False)
    async def ended(self) -> None:
        """Wait for ever: the call fails when the replica is gone, which is how others notice."""
        await asyncio.Event().wait()

    def _models_changed(self, models: tuple[str, ...]) -> None:
        if models != self.models:
            self.models = models
            if self.controller is not None:
                self.controller.has_models.remote(self.id, models)

    async def address_with_room(self, waits: bool) -> str:
        """Return where HTTP is answered here, as soon as there is room; "" if there is none now,
        or will never be."""
        if waits:
            await self.has_room()
        return "" if self.refuses() or self.http is None else self.http.address

    # -- requests ------------------------------------------------------------------------------

    def _enter(self) -> None:
        serve_context.enter_replica(self.context, self._owns_process)

    def begin(self, request: RequestContext) -> _Begun:
        """Count in a request that begins in this task, and set its context; `end` must follow."""
        self._one_more()
        if not self._owns_process:
            self._enter()
        return serve_context._request.set(request), request, time.monotonic()

    def end(self, begun: _Begun, failure: str = "") -> None:
        """Count out a request, and give its task the context that it had before.

        Args:
            begun: What `begin` has returned.
            failure: The kind of error that the request ended with, if it did.
        """
        token, request, since = begun
        serve_context._request.reset(token)
        self._count_out(request.pattern, since, failure)

    async def handle_request(
        self, method: str, id: str, route: str, model_id: str, /, *args: object, **kwargs: object
    ) -> Any:
        """Answer a call of a handle, or refuse it."""
        if self.refuses():
            return RequestRefused(self.stopping)
        return await self.handle_anyway(method, id, route, model_id, *args, **kwargs)

    async def handle_anyway(
        self, method: str, id: str, route: str, model_id: str, /, *args: object, **kwargs: object
    ) -> Any:
        """Answer a call that is for this replica and no other, however busy it is."""
        request = self._request(id, route, model_id)
        begun, failure = self.begin(request), ""
        try:
            return await self.code.call(method, args, kwargs)
        except asyncio.CancelledError:
            cancel_children(request)
            raise
        except Exception as error:
            failure = type(error).__name__
            raise
        finally:
            settle_children(request)
            if self.logs is not None and self.logs.has_access_log:
                self.logs.log_call(method, time.monotonic() - begun[2])
            self.end(begun, failure)

    # Streaming calls of handles; the first item says whether it is taken. The second is for a
    # request that was promised its place, however busy the replica is.
    handle_stream = _streaming("handle_stream", may_refuse=True)
    handle_stream_anyway = _streaming("handle_stream_anyway", may_refuse=False)

    def _request(self, id: str, route: str, model_id: str) -> RequestContext:
        return RequestContext(
            route=route,
            request_id=id,
            app_name=self.deployment_id.app_name,
            multiplexed_model_id=model_id,
        )

    # -- HTTP ----------------------------------------------------------------------------------

    @property
    def app(self) -> ReplicaApp:
        """The user's code as an ASGI application, made when it is first needed."""
        if self._app is None:
            from skate.serve._http.replica_app import ReplicaApp

            self._app = ReplicaApp(self)
        return self._app

    async def listen(self, invitation: PortInvitation) -> None:
        """Answer HTTP on the shared port, to which its owner invites."""
        from skate.serve._http.replica_app import join_port

        self.http = await join_port(self, invitation)

    async def stop_listening(self) -> None:
        """Accept no more connections."""
        if self.http is not None:
            http, self.http = self.http, None
            await http.leave()

    def answer_http(
        self, scope: Scope, body: bytes, rest: UploadReference | None
    ) -> AsyncIterator[list[Message]]:
        """Answer a request that arrived at another process, by ASGI messages."""
        from skate.serve._http.forwarding import respond_in_messages
        from skate.serve._http.uploads import ForwardedBody

        return respond_in_messages(self.app.respond, scope, ForwardedBody(body, rest))

    async def read_upload(self, key: str, position: int) -> Message:
        """Return a piece of a body that arrived here, to the replica that answers."""
        from skate.serve._http.uploads import read_upload

        return await read_upload(key, position)


def live_rows_of(replica: Replica) -> list[dict[str, object]]:
    """Return a row, for those who look in from outside."""
    traffic = replica.traffic
    return [
        {
            "application": replica.deployment_id.app_name,
            "deployment": replica.deployment_id.name,
            "replica": replica.id.unique_id,
            "pid": os.getpid(),
            "ongoing": replica.ongoing,
            "waiting": replica.waiting,
            "answered": traffic.answered,
            "seconds": traffic.seconds,
            "latencies": traffic.latencies.counts(),
        }
    ]
