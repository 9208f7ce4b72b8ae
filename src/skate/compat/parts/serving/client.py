"""`ray.serve.context._get_global_client()`: what tests do with the running instance."""

from __future__ import annotations

import asyncio
from typing import Any

import skate
from skate import serve
from skate.serve import _client
from skate.serve._application.config_files import specs_of
from skate.serve.exceptions import SkateServeError

_configs: dict[str, Any] = {}  # what `deploy_apps` was told of applications, by name


class ServeControllerClient:
    """The running instance, under the names of Ray's client."""

    def __init__(self, controller: Any) -> None:
        self._controller = controller

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
        """Run what a `ServeDeploySchema` says; what one before has said ends, if this does not."""
        specs = specs_of(config)
        names = [spec.name for spec in specs]
        there = set(_configs) & set(serve.status().applications)
        self.delete_apps(there - set(names), blocking=_blocking)
        _configs.clear()
        _configs.update((app.name, app) for app in config.applications)
        skate.get(self._controller.deploy.remote(specs, [config.target_capacity]))
        if _blocking:
            skate.get(self._controller.wait_until_settled.remote(names))

    def get_serve_details(self) -> dict[str, Any]:
        """Return everything that runs, as `ServeInstanceDetails` takes it."""
        from skate.compat.parts.serving.details import details

        routes = skate.get(self._controller.routes.remote())
        return details(_configs, {id.app_name: prefix for prefix, id in routes.items()})

    def get_serve_status(self, name: str = "default") -> Any:
        return serve.status().applications.get(name)

    def get_all_deployment_statuses(self) -> list[Any]:
        applications = serve.status().applications.values()
        return [each for app in applications for each in app.deployments.values()]

    def get_handle(self, deployment_name: str, app_name: str | None = None, **_: object) -> Any:
        return serve.get_deployment_handle(deployment_name, app_name)

    def shutdown(self, timeout_s: float = 30) -> None:
        serve.shutdown()

    def shutdown_cached_handles(self) -> None:
        """Handles of skate hold nothing that would have to be given back."""

    async def shutdown_cached_handles_async(self) -> None:
        await asyncio.sleep(0)


def get_global_client(
    _health_check_controller: bool = False, raise_if_no_controller_running: bool = True
) -> ServeControllerClient | None:
    """The client of the running instance."""
    found = _client.find() if skate.is_initialized() else None
    if found is not None:
        return ServeControllerClient(found.controller)
    if raise_if_no_controller_running:
        raise SkateServeError("There is no Serve instance running: serve.start() starts one.")
    return None


_get_global_client = get_global_client


def _set_global_client(client: object) -> None:
    """Nothing to set: the instance that runs is the client's."""


def _connect(raise_if_no_controller_running: bool = True) -> ServeControllerClient | None:
    return get_global_client(False, raise_if_no_controller_running)
