"""`ray.serve.context._get_global_client()`: what tests do with the running instance."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import skate
from skate import serve
from skate.serve import _client
from skate.serve._application.config_files import specs_and_failures
from skate.serve.exceptions import SkateServeError


def shown_controller(controller: Any) -> Any:
    """Return the controller as programs are given it: as it is, unless helpers of Ray's tests are
    imported, which put a function here whose controllers answer Ray's questions, too."""
    return controller


class ServeControllerClient:
    """The running instance, under the names of Ray's client."""

    def __init__(self, controller: Any) -> None:
        self._controller = shown_controller(controller)

    @property
    def http_config(self) -> Any:
        return serve.HTTPOptions()

    @property
    def root_url(self) -> str:
        return serve.http_address()

    def delete_apps(self, names: Any, blocking: bool = True) -> None:
        for name in names:
            serve.delete(name, _blocking=blocking)

    def delete_all_apps(self, blocking: bool = True) -> None:
        self.delete_apps(list(serve.status().applications), blocking)

    def deploy_apps(self, config: Any, _blocking: bool = False) -> None:
        """Run what a `ServeDeploySchema` says; what one before has said ends, if this does not.
        What cannot be imported is told by its status."""
        grpc = config.grpc_options.options()
        if grpc.grpc_servicer_functions:
            serve.start(grpc_options=grpc)
        specs, failures = specs_and_failures(config)
        names = [app.name for app in config.applications]
        declared = skate.get(self._controller.config.remote())
        self.delete_apps(declared.keys() - set(names), blocking=_blocking)
        said = {app.name: app.model_dump(exclude_unset=True) for app in config.applications}
        skate.get(self._controller.deploy.remote(specs, [config.target_capacity]))
        skate.get(self._controller.fail.remote(failures))
        skate.get(self._controller.remember.remote(said))
        if _blocking:
            skate.get(self._controller.wait_until_settled.remote(names))

    def get_serve_details(self) -> dict[str, Any]:
        """Return everything that runs, as `ServeInstanceDetails` takes it."""
        from skate.compat.parts.serving.details import details
        from skate.serve.schema import ServeApplicationSchema

        questions = (self._controller.routes, self._controller.options, self._controller.config)
        routes, options, said = skate.get([question.remote() for question in questions])
        prefixes = {id.app_name: prefix for prefix, id in routes.items()}
        configs = {name: ServeApplicationSchema(**app) for name, app in said.items()}
        return details(configs, prefixes, options)

    def get_serve_status(self, name: str = "default") -> Any:
        return serve.status().applications.get(name)

    def get_all_deployment_statuses(self) -> list[Any]:
        applications = serve.status().applications.values()
        return [each for app in applications for each in app.deployments.values()]

    def delete_deployments(self, names: Any, blocking: bool = True) -> None:
        """Delete the applications with these deployments, as Ray until 2.9 had no others."""
        for app, overview in serve.status().applications.items():
            known = {*overview.deployments, *(f"{app}_{name}" for name in overview.deployments)}
            if not known.isdisjoint(names):
                serve.delete(app, _blocking=blocking)

    def _wait_for_application_running(self, name: str, timeout_s: float = -1) -> None:
        def is_running() -> bool:
            app = serve.status().applications[name]
            if app.status == "DEPLOY_FAILED":
                raise RuntimeError(f"application {name!r} could not be deployed: {app.message}")
            return app.status == "RUNNING"

        self._wait(is_running, timeout_s)

    def _wait_for_deployment_healthy(self, name: str, timeout_s: float = -1) -> None:
        def is_healthy() -> bool:
            found = self._named(name)
            failed = [each.message for each in found if each.status == "UNHEALTHY"]
            if failed or not found:
                reason = "; ".join(failed) or "there is no such deployment"
                raise RuntimeError(f"deployment {name!r} is not healthy: {reason}")
            return all(each.status == "HEALTHY" for each in found)

        self._wait(is_healthy, timeout_s)

    def _named(self, name: str) -> list[Any]:
        return [
            each
            for app, overview in serve.status().applications.items()
            for deployment, each in overview.deployments.items()
            if name in (deployment, f"{app}_{deployment}")
        ]

    def _wait(self, condition: Callable[[], bool], timeout_s: float) -> None:
        end = time.monotonic() + (timeout_s if timeout_s >= 0 else math.inf)
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"it is not so after {timeout_s}s; serve.status() tells more")
            time.sleep(0.05)

    def wait_for_proxies_serving(self, wait_for_applications_running: bool = True) -> None:
        """Return at once: replicas answer when `serve.run` has returned."""

    def get_handle(self, deployment_name: str, app_name: str | None = None, **_: object) -> Any:
        return serve.get_deployment_handle(deployment_name, app_name)

    def shutdown(self, timeout_s: float = 30) -> None:
        serve.shutdown()

    async def shutdown_async(self, timeout_s: float = 30) -> None:
        await serve.shutdown_async()

    def shutdown_cached_handles(self) -> None:
        """Do nothing: handles of skate hold nothing that would have to be given back."""

    async def shutdown_cached_handles_async(self) -> None:
        await asyncio.sleep(0)


def get_global_client(
    _health_check_controller: bool = False, raise_if_no_controller_running: bool = True
) -> ServeControllerClient | None:
    """Return the client of the running instance."""
    found = _client.find() if skate.is_initialized() else None
    if found is not None:
        return ServeControllerClient(found.controller)
    if raise_if_no_controller_running:
        raise SkateServeError("no Serve instance is running: serve.start() starts one")
    return None


_get_global_client = get_global_client


def _set_global_client(client: object) -> None:
    """Do nothing: the instance that runs is the client's."""


def _connect(raise_if_no_controller_running: bool = True) -> ServeControllerClient | None:
    return get_global_client(False, raise_if_no_controller_running)


def __getattr__(name: str) -> Any:
    if name == "_global_client":
        return get_global_client(raise_if_no_controller_running=False)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
