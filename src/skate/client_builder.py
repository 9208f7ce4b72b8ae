"""Ray's older way to connect: `client(address).namespace("mine").connect()`."""

from __future__ import annotations

from typing import Any

from skate._facade.client_context import ClientContext
from skate._facade.init import init

__all__ = ["ClientBuilder", "ClientContext", "client"]


class ClientBuilder:
    """Collects what `init` is given; `connect()` calls it."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address
        self._settings: dict[str, Any] = {}

    def env(self, env: dict[str, Any]) -> ClientBuilder:
        """Set the runtime environment `env` of all tasks and actors."""
        self._settings["runtime_env"] = env
        return self

    def namespace(self, namespace: str) -> ClientBuilder:
        """Set the `namespace` where named actors live."""
        self._settings["namespace"] = namespace
        return self

    def connect(self) -> ClientContext:
        """Start, as `init(address, ...)` does, and return its context."""
        return init(self.address, **self._settings)


def client(address: str | None = None) -> ClientBuilder:
    """Begin to connect to a cluster; `init(address)` does the same in one call.

    Args:
        address: The cluster; None is the one that runs on this machine.
    """
    return ClientBuilder(address)
