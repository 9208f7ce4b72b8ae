"""`ray.serve._private.test_utils`: what tests of applications wait and look with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

# Deployments, routers and the controller show from here on what tests ask for.
import ray_test_helpers.serving_config
import ray_test_helpers.serving_controller  # noqa: F401
import skate
from skate import serve
from skate.compat.parts.inside import Absent
from skate.compat.parts.serving.client import get_global_client
from skate.serve import _client
from skate.serve._identity import DEFAULT_APP
from skate.serve._status import ApplicationStatus, ReplicaState

TELEMETRY_ROUTE_PREFIX = "/telemetry"
STORAGE_ACTOR_NAME = "storage"
SERVE_INSTANCE_SIGNAL_ACTOR_NAME = "signal123"


def check_ray_started() -> bool:
    return skate.is_initialized()


def check_ray_stopped() -> bool:
    return not skate.is_initialized()


# -- addresses ----------------------------------------------------------------------------------


def get_application_urls(
    protocol: Any = "HTTP",
    app_name: str = DEFAULT_APP,
    use_localhost: bool = True,
    is_websocket: bool = False,
    exclude_route_prefix: bool = False,
    from_proxy_manager: bool = False,
) -> list[str]:
    """Return where an application answers: one address, which all replicas share."""
    if getattr(protocol, "value", protocol) == "gRPC":
        return [_grpc_address(use_localhost)]
    routes = skate.get(_client.connect().controller.routes.remote())
    prefixes = [prefix for prefix, id in routes.items() if id.app_name == app_name]
    prefix = "" if exclude_route_prefix or not prefixes else prefixes[0]
    host = "localhost" if use_localhost else skate.util.get_node_ip_address()
    address = f"http://{host}:{serve.http_address().rpartition(':')[2]}"
    if is_websocket:
        address = address.replace("http", "ws", 1)
    return [(address + prefix).rstrip("/")]


def _grpc_address(use_localhost: bool) -> str:
    port = serve.grpc_address().rpartition(":")[2]
    return f"{'localhost' if use_localhost else skate.util.get_node_ip_address()}:{port}"


def get_application_url(
    protocol: Any = "HTTP",
    app_name: str = DEFAULT_APP,
    use_localhost: bool = True,
    is_websocket: bool = False,
    exclude_route_prefix: bool = False,
    from_proxy_manager: bool = False,
) -> str:
    (url,) = get_application_urls(
        protocol, app_name, use_localhost, is_websocket, exclude_route_prefix
    )
    return url


def check_target_groups_ready(client: Any, app_name: str, protocol: Any = "HTTP") -> bool:
    return bool(get_application_urls(protocol, app_name))


def request_with_retries(timeout: float = 30, app_name: str = DEFAULT_APP) -> Any:
    """Return the response of an application, as soon as it answers."""
    import httpx

    end = time.monotonic() + timeout
    while True:
        try:
            return httpx.get(get_application_url("HTTP", app_name), timeout=timeout)
        except (httpx.HTTPError, ValueError):
            if time.monotonic() > end:
                raise TimeoutError(f"no answer within {timeout} s") from None
            time.sleep(0.1)


# -- status -------------------------------------------------------------------------------------


def check_deployment_status(name: str, expected_status: Any, app_name: str = DEFAULT_APP) -> bool:
    status = serve.status().applications[app_name].deployments[name].status
    assert status == expected_status, f"{name} is {status}, not {expected_status}"
    return True


def check_running(app_name: str = DEFAULT_APP) -> bool:
    return check_apps_running([app_name])


def check_apps_running(apps: list[str]) -> bool:
    applications = serve.status().applications
    for app in apps:
        assert applications[app].status == ApplicationStatus.RUNNING, applications[app]
    return True


def get_num_alive_replicas(deployment_name: str, app_name: str = DEFAULT_APP) -> int:
    deployment = serve.status().applications[app_name].deployments[deployment_name]
    return deployment.replica_states.get(ReplicaState.RUNNING, 0)


def get_node_id() -> str:
    return skate.get_runtime_context().get_node_id()


def check_num_alive_nodes(target: int) -> bool:
    assert sum(node["Alive"] for node in skate.nodes()) == target
    return True


def get_deployment_details(
    deployment_name: str, app_name: str = DEFAULT_APP, _client: Any = None
) -> dict[str, Any]:
    client: Any = _client or get_global_client()
    found = client.get_serve_details()["applications"]
    details: dict[str, Any] = found[app_name]["deployments"][deployment_name]
    return details


def check_num_replicas_eq(
    name: str, target: int, app_name: str = DEFAULT_APP, use_controller: bool = False
) -> bool:
    number = get_num_alive_replicas(name, app_name)
    assert number == target, f"{name} has {number} replicas, not {target}"
    return True


def check_num_replicas_gte(name: str, target: int, app_name: str = DEFAULT_APP) -> bool:
    number = get_num_alive_replicas(name, app_name)
    assert number >= target, f"{name} has {number} replicas, less than {target}"
    return True


def check_num_replicas_lte(name: str, target: int, app_name: str = DEFAULT_APP) -> bool:
    number = get_num_alive_replicas(name, app_name)
    assert number <= target, f"{name} has {number} replicas, more than {target}"
    return True


# -- events -------------------------------------------------------------------------------------


@asynccontextmanager
async def send_signal_on_cancellation(signal_actor: Any) -> AsyncIterator[None]:
    """Wait to be cancelled, and tell the signal so."""
    try:
        yield
        await asyncio.Event().wait()
    except (asyncio.CancelledError, skate.exceptions.TaskCancelledError):
        await signal_actor.send.remote()


def tlog(text: str, level: str = "INFO") -> None:
    """Print a line with the time, among the output of a test."""
    print(f"[{level}] {time.strftime('%H:%M:%S')} {text}")


def __getattr__(name: str) -> Absent:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Absent(f"ray.serve._private.test_utils.{name}")
