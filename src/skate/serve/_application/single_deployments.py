"""Deployments that run one by one, each as an application of its own name: Ray until 2.8."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import skate
from skate.serve import _client
from skate.serve.exceptions import NoSuchDeploymentError

if TYPE_CHECKING:
    from skate.serve._deployment import Deployment
    from skate.serve.handle import DeploymentHandle


class RunningDeployment:
    """A deployment that runs, found by its name.

    Args:
        name: Its name.
        app_name: The name of its application.
    """

    def __init__(self, name: str, app_name: str) -> None:
        self.name = name
        self.app_name = app_name

    @property
    def route_prefix(self) -> str | None:
        """Where its application answers HTTP; None for nowhere, or if it is not in front."""
        routes = skate.get(_client.connect().controller.routes.remote())
        own = (self.name, self.app_name)
        return next((prefix for prefix, id in routes.items() if tuple(id) == own), None)

    @property
    def url(self) -> str | None:
        """The address of it; None if it answers no HTTP."""
        from skate.serve._http.address import http_address

        prefix = self.route_prefix
        return None if prefix is None else http_address() + prefix

    def get_handle(self, sync: bool | None = None) -> DeploymentHandle:
        """Return the handle to it.

        Args:
            sync: Without effect: a response can be waited for and awaited.
        """
        from skate.serve.handle import DeploymentHandle

        return DeploymentHandle(self.name, self.app_name)

    def delete(self) -> None:
        """End it, and with it its application."""
        from skate.serve._api import delete

        delete(self.app_name)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a deployment that was found by its name has no {name!r}: its class and its options "
            f"are with the program that ran it; change that one's, and run it again"
        )

    def __repr__(self) -> str:
        return f"Deployment(name={self.name!r}, app={self.app_name!r})"


def attribute(deployment: Deployment, name: str) -> Any:
    """Return what a deployment had once under this name.

    Args:
        deployment: The deployment.
        name: The name.

    Raises:
        KeyError: If it never had such a thing, or has it no more.
    """
    if name == "deploy":
        return partial(_deploy, deployment)
    if name == "route_prefix":
        return prefix_of(deployment)
    if name == "set_options":
        return partial(_set_options, deployment)
    if name in ("delete", "get_handle", "url"):
        by_itself = RunningDeployment(deployment.name, deployment.name)
        return getattr(list_deployments().get(deployment.name, by_itself), name)
    raise KeyError(name)


def _set_options(deployment: Deployment, /, **options: Any) -> None:
    """Change a deployment, of which `options` returns a changed copy."""
    changed = deployment.options(**options)
    deployment.__dict__ = changed.__dict__  # all of it: what was found out before is no longer so


def prefix_of(deployment: Deployment) -> str | None:
    """Return where a deployment that runs by itself answers HTTP."""
    prefix: str | None = deployment._given.get("route_prefix", f"/{deployment.name}")
    return prefix


def _deploy(
    deployment: Deployment, /, *init_args: object, _blocking: bool = True, **init_kwargs: object
) -> None:
    """Run a deployment as an application of its own name.

    Args:
        deployment: The deployment.
        init_args: Arguments of the constructor.
        _blocking: Whether to wait until it answers.
        init_kwargs: Named arguments of the constructor.
    """
    from skate.serve._api import run

    run(
        deployment.bind(*init_args, **init_kwargs),
        name=deployment.name,
        route_prefix=prefix_of(deployment),
        _blocking=_blocking,
    )


def list_deployments() -> dict[str, RunningDeployment]:
    """Return what runs, by the names of deployments; of two with one name, that which runs by
    itself."""
    from skate.serve._api import status

    found: dict[str, RunningDeployment] = {}
    for app_name, app in status().applications.items():
        for name in app.deployments:
            if name not in found or name == app_name:
                found[name] = RunningDeployment(name, app_name)
    return found


def get_deployment(name: str) -> RunningDeployment:
    """Return a deployment that runs.

    Args:
        name: Its name.

    Raises:
        KeyError: If there is none of this name.
    """
    found = list_deployments()
    if name not in found:
        raise NoSuchDeploymentError(f"no deployment {name!r} runs; there are {sorted(found)}")
    return found[name]
