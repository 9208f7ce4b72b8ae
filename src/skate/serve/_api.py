"""What programs call: run, status, delete, shutdown, handles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import skate
from skate._core import notices
from skate._core.optional_imports import install_command, is_installed
from skate._core.plain_errors import failing_plainly
from skate.exceptions import TaskError
from skate.serve import _client
from skate.serve._application.specs import build
from skate.serve._client import Client
from skate.serve._deployment import Application
from skate.serve._grpc.start import is_wanted, start_server
from skate.serve._http.routes import check_prefix
from skate.serve._identity import (
    CONTROLLER,
    DEFAULT_APP,
    GRPC_SERVER,
    NAMESPACE,
    STATE_STORE,
    DeploymentID,
)
from skate.serve._start_options import (
    GivenHttpOptions,
    read_http_options,
    refuse_external_scaler,
    refuse_tracing,
    takes_older_address,
    takes_older_start_options,
    warn_of_options,
    warn_of_others,
    with_middlewares_of_environment,
)
from skate.serve._status import ApplicationStatus, ServeStatus
from skate.serve._system_actors import system_actor
from skate.serve.config import ControllerOptions, HTTPOptions, ProxyLocation, gRPCOptions
from skate.serve.context import current_replica
from skate.serve.exceptions import (
    AddressUnavailableError,
    NoSuchDeploymentError,
    SkateServeError,
)
from skate.serve.handle import DeploymentHandle

if TYPE_CHECKING:
    from skate.serve._identity import ControllerHandle

GivenControllerOptions = ControllerOptions | Mapping[str, Any] | None

_INTERRUPTED_CODE = 130  # what a program returns to the shell after Ctrl-C


class Interrupted(SystemExit, KeyboardInterrupt):
    """Ctrl-C has ended `serve.run(..., blocking=True)`.

    That is the usual way out: a program that does not catch it ends without a traceback.
    """


@dataclass(frozen=True)
class RunTarget:
    """An application for `run_many`.

    Args:
        target: The application, made by `deployment.bind(...)`.
        name: Its name.
        route_prefix: Where it answers HTTP; None for nowhere.
        logging_config: How its replicas log: a `LoggingConfig`, or a dictionary of its fields.
        external_scaler_enabled: False; nothing outside of the program scales deployments.
    """

    target: Application
    name: str = DEFAULT_APP
    route_prefix: str | None = "/"
    logging_config: object = None
    external_scaler_enabled: bool = False


@takes_older_start_options
def start(
    proxy_location: ProxyLocation | str | None = None,
    http_options: GivenHttpOptions = None,
    grpc_options: gRPCOptions | Mapping[str, object] | None = None,
    logging_config: object = None,
    tracing_config: None = None,
    controller_options: GivenControllerOptions = None,
) -> None:
    """Start serving; an instance that runs is left as it is.

    Args:
        proxy_location: "Disabled" for handles only; all else means this machine.
        http_options: `HTTPOptions`, or a dictionary of its fields; by default
            http://127.0.0.1:8000.
        grpc_options: `gRPCOptions`, or a dictionary of its fields; without
            `grpc_servicer_functions`, gRPC is not answered.
        logging_config: No effect: it is for the controller and the proxies of Ray.
        tracing_config: None: no traces are exported.
        controller_options: `ControllerOptions`, or a dictionary of its fields: the environment
            of the controller's process.

    Raises:
        TypeError: If an option does not exist, or has the wrong type.
        ValueError: If a value is not allowed.
        RuntimeError: If the port is taken.
    """
    refuse_tracing(tracing_config)
    grpc = gRPCOptions.of("grpc_options", grpc_options or {})
    wanted, asked = read_http_options(proxy_location, http_options)
    wants_grpc = is_wanted(grpc)
    running = _client.find()
    client = _start(wanted, controller_options)
    if wants_grpc:
        try:
            start_server(grpc, _http_options_for_grpc(client, http_options))
        except BaseException:  # the port is taken, above all
            if running is None:
                shutdown()
            raise
    if running is not None and asked:
        warn_of_others(skate.get(running.controller.http_options.remote()), wanted, asked)


def _http_options_for_grpc(client: Client, given: GivenHttpOptions) -> HTTPOptions:
    """Return whose host, certificate and token gRPC has: HTTP's as it runs, and without HTTP what
    was given for it."""
    running: HTTPOptions | None = skate.get(client.controller.http_options.remote())
    return running or HTTPOptions.of("http_options", {} if given is None else given)


def _default_http() -> HTTPOptions | None:
    """Return the options of HTTP; None without its packages, as handles work all the same."""
    missing = [name for name in ("uvicorn", "httptools", "starlette") if not is_installed(name)]
    if not missing:
        return HTTPOptions()
    notices.once(
        "serve without HTTP",
        f"applications answer their handles only, and no HTTP: {', '.join(missing)} cannot be "
        f"imported: {install_command('serve')}",
    )
    return None


def _say_where(names: list[str]) -> None:
    """Say that applications run, and at which address, where nothing else would."""
    from skate.serve._http.address import http_address

    try:
        where = f" at {http_address()}"
    except RuntimeError:  # there is no HTTP
        where = ""
    notices.say(f"serving {', '.join(names)}{where}; Ctrl-C ends it")


def _start(http: HTTPOptions | None, controller_options: GivenControllerOptions = None) -> Client:
    options = ControllerOptions.of("controller_options", controller_options or {})
    if not skate.is_initialized():
        skate.init()
    found = _client.find()
    if found is not None:
        warn_of_options(options)
        return found
    http = with_middlewares_of_environment(http)
    client = _start_controller(http, options)
    try:
        skate.get(client.controller.open.remote(http))
    except BaseException as error:  # the port is taken, above all
        _kill_controller(client.controller)
        if isinstance(error, TaskError) and isinstance(error.cause, AddressUnavailableError):
            raise error.cause from None  # which says all: nobody needs the controller's lines
        raise
    return client


def _start_controller(http: HTTPOptions | None, options: ControllerOptions) -> Client:
    from skate.serve._controller.actor import ServeController

    controller = system_actor(ServeController, CONTROLLER, runtime_env=options.runtime_env or None)
    client = _client.use(controller.remote(http))
    client.backup = _client.StateBackup(client.controller)
    client.backup.start()
    return client


@failing_plainly
@takes_older_address(start)
def run(
    target: Application,
    blocking: bool = False,
    name: str = DEFAULT_APP,
    route_prefix: str | None = "/",
    logging_config: object = None,
    _local_testing_mode: bool = False,
    external_scaler_enabled: bool = False,
    controller_options: GivenControllerOptions = None,
    _blocking: bool = True,
    *,
    keep_unchanged: bool = False,
) -> DeploymentHandle:
    """Run an application and return the handle to it, once it answers.

    An application of the same name is changed into this one: new replicas start, those before
    them finish what they have, and this returns when they have ended.

    Args:
        target: The application, made by `deployment.bind(...)`.
        blocking: Whether to go on until Ctrl-C, which then ends the program, quietly.
        name: The name of the application.
        route_prefix: Where it answers HTTP; None for nowhere.
        logging_config: How its replicas log, where their deployments do not say it: a
            `LoggingConfig`, or a dictionary of its fields.
        external_scaler_enabled: False; nothing outside of the program scales deployments.
        controller_options: The environment of the controller, as in `start`.
        _blocking: Whether to wait until the application answers.
        _local_testing_mode: For unit tests: without a session, run it in this process.
        keep_unchanged: Whether replicas stay whose code and arguments are what they were, and
            only options of them change, as with config files. What their code reads when it
            starts, a model's file for example, is then not read again. A deployment with a
            `version` keeps its replicas as long as that is the same, in any case.

    Returns:
        The handle to the application: to the deployment that was given, not to those inside.

    Raises:
        TypeError: If `target` is no application.
        ValueError: If `route_prefix` cannot be one.
        RuntimeError: If the application failed to start, with the error of its code.
        Interrupted: After Ctrl-C, if it is `blocking`.

    Example:
        >>> from skate import serve
        >>> @serve.deployment
        ... def greet(name: str) -> str:
        ...     return f"hello {name}"
        >>> handle = serve.run(greet.bind(), route_prefix=None)
        >>> handle.remote("you").result()
        'hello you'
    """
    one = RunTarget(target, name, route_prefix, logging_config, external_scaler_enabled)
    return run_many(
        [one],
        blocking,
        wait_for_applications_running=_blocking,
        _local_testing_mode=_local_testing_mode,
        controller_options=controller_options,
        keep_unchanged=keep_unchanged,
    )[0]


def run_many(
    targets: Sequence[RunTarget],
    blocking: bool = False,
    wait_for_ingress_deployment_creation: bool = True,
    wait_for_applications_running: bool = True,
    _local_testing_mode: bool = False,
    controller_options: GivenControllerOptions = None,
    *,
    keep_unchanged: bool = False,
) -> list[DeploymentHandle]:
    """Run several applications at once.

    Args:
        targets: The applications, at least one.
        blocking: Whether to go on until Ctrl-C, which then ends the program, quietly.
        wait_for_ingress_deployment_creation: No effect: the ingress deployments exist in any
            case when this returns.
        wait_for_applications_running: Whether to wait until all answer.
        controller_options: The environment of the controller, as in `start`.
        keep_unchanged: Whether replicas stay whose code and arguments are what they were, as in
            `run`.
        _local_testing_mode: For unit tests: without a session, run them in this process.

    Returns:
        A handle for each application, in their order.

    Raises:
        TypeError: If a target is no application.
        ValueError: If there are no targets, or a `route_prefix` cannot be one.
        RuntimeError: If an application failed to start, with the error of its code.
    """
    if _local_testing_mode and not skate.is_initialized():
        skate.init(engine="inline")
    if not targets:
        raise ValueError("run_many takes at least one RunTarget; got none")
    for target in targets:
        _check(target)
    specs = [
        build(
            each.target, each.name, each.route_prefix, keep_unchanged=keep_unchanged
        ).with_logging(each.logging_config)
        for each in targets
    ]
    client = _start(_default_http(), controller_options)
    try:
        skate.get(client.controller.deploy.remote(specs))
        if wait_for_applications_running:
            _wait(client, [spec.name for spec in specs])
        if blocking:
            _say_where([spec.name for spec in specs])
            with notices.patient():
                skate.get(client.controller.until_shut_down.remote())
            _kill_controller(client.controller)
    except KeyboardInterrupt as interrupt:
        if not blocking:
            raise
        shutdown()
        raise Interrupted(_INTERRUPTED_CODE) from interrupt
    return [DeploymentHandle(spec.ingress, spec.name) for spec in specs]


_run, _run_many = run, run_many


def _check(target: RunTarget) -> None:
    if not isinstance(target.target, Application):
        raise TypeError(
            "serve.run takes an application, which `deployment.bind(...)` makes (for a graph: "
            f"`DAGDriver.bind(graph)`); got {target.target!r}"
        )
    if not target.name:
        raise SkateServeError(
            f"the name of an application is a non-empty string; got {target.name!r}"
        )
    check_prefix(target.route_prefix)
    refuse_external_scaler(target.external_scaler_enabled)


def _wait(client: Client, names: list[str]) -> None:
    found = skate.get(client.controller.wait_until_settled.remote(names))
    for name, (status, message) in zip(names, found, strict=True):
        if status == ApplicationStatus.DEPLOY_FAILED:
            raise RuntimeError(f"Deploying application {name} failed: {message}")
        if status != ApplicationStatus.RUNNING:
            raise RuntimeError(f"application {name} was deleted before it ran")


def delete(name: str, _blocking: bool = True) -> None:
    """End an application; its replicas finish what they have.

    Args:
        name: The name of the application; one that does not exist is no error.
        _blocking: Whether to wait until it has ended.

    Raises:
        SkateServeError: If nothing is being served.
    """
    client = _client.connect()
    skate.get(client.controller.delete.remote([name]))
    if _blocking:
        skate.get(client.controller.wait_until_gone.remote([name]))


def shutdown() -> None:
    """End all applications and serving itself; do nothing if nothing is being served."""
    client = _client.find() or _replace_killed_controller()
    if client is None:
        return
    controller = client.controller
    names = skate.get(controller.names.remote())
    skate.get(controller.delete.remote(names))
    skate.get(controller.wait_until_gone.remote(names))
    skate.get(controller.close.remote())
    _kill_controller(controller)


def _replace_killed_controller() -> Client | None:
    """Start a controller that knows what the last one has left behind; None if there is none."""
    if not skate.is_initialized():
        return None
    try:
        skate.get_actor(STATE_STORE, namespace=NAMESPACE)
    except ValueError:
        return None
    return _start(None)


def _kill_controller(controller: ControllerHandle) -> None:
    """Kill the controller first: it would replace its state store."""
    skate.kill(controller)
    for name in (STATE_STORE, GRPC_SERVER):
        try:
            skate.kill(skate.get_actor(name, namespace=NAMESPACE))
        except ValueError:
            pass
    _client.forget()


async def shutdown_async() -> None:
    """End all applications and serving itself, as `shutdown` does, for async code."""
    import asyncio

    await asyncio.get_running_loop().run_in_executor(None, shutdown)


def status() -> ServeStatus:
    """Return how all applications and their deployments are doing.

    Returns:
        Statuses by name; none if nothing is being served.
    """
    client = _client.find()
    if client is None:
        return ServeStatus()
    found: ServeStatus = skate.get(client.controller.status.remote())
    return found


def get_app_handle(name: str) -> DeploymentHandle:
    """Return the handle to an application that runs.

    Args:
        name: The name of the application, as given to `run`.

    Raises:
        SkateServeError: If there is no such application.
    """
    client = _client.connect()
    ingress = skate.get(client.controller.ingress_of.remote(name))
    if ingress is None:
        raise SkateServeError(f"Application {name!r} does not exist; serve.status() lists them")
    return DeploymentHandle(ingress, name)


def get_deployment_handle(
    deployment_name: str,
    app_name: str | None = None,
    _check_exists: bool = True,
    _record_telemetry: bool = False,
) -> DeploymentHandle:
    """Return the handle to a deployment.

    Args:
        deployment_name: Its name.
        app_name: The name of its application; inside a deployment by default the same, elsewhere
            "default".
        _check_exists: Whether it has to exist already.
        _record_telemetry: No effect: nothing is recorded.

    Raises:
        NoSuchDeploymentError: If there is none: a SkateServeError, and a KeyError.
    """
    if app_name is None:
        replica = current_replica()
        app_name = DEFAULT_APP if replica is None else replica.app_name
    id = DeploymentID(deployment_name, app_name)
    if _check_exists:
        client = _client.connect()
        if not skate.get(client.controller.has_deployment.remote(id)):
            raise NoSuchDeploymentError(f"{id} does not exist; serve.status() lists what does")
    return DeploymentHandle(deployment_name, app_name)
