"""Which application answers a path: the one with the longest prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from skate.serve._identity import DeploymentID


class Route(NamedTuple):
    """Who answers below a prefix."""

    prefix: str
    deployment_id: DeploymentID


class Routes:
    """The routes at one moment."""

    def __init__(self, targets: Mapping[str, Sequence[str]] | None = None) -> None:
        """Take prefix -> (name of the ingress deployment, name of its application)."""
        routes = [Route(prefix, DeploymentID(*id)) for prefix, id in (targets or {}).items()]
        self._by_length = sorted(routes, key=lambda route: -len(route.prefix))

    def match(self, path: str) -> Route | None:
        """Return whose `path` is. A prefix covers whole parts: /a is not a prefix of /ab."""
        for route in self._by_length:
            prefix = route.prefix
            if prefix == "/" or path == prefix or path.startswith(prefix + "/"):
                return route
        return None

    def __bool__(self) -> bool:
        return bool(self._by_length)

    def names(self) -> dict[str, str]:
        """Return prefix -> application, as `/-/routes` shows it."""
        return {route.prefix: route.deployment_id.app_name for route in reversed(self._by_length)}


def check_prefix(prefix: object) -> None:
    """Raise a ValueError if `prefix` cannot be one."""
    if prefix is None:
        return
    if not isinstance(prefix, str):
        problem = "must be a str, or None for no route"
    elif not prefix.startswith("/"):
        problem = "must start with a forward slash ('/')"
    elif prefix != "/" and prefix.endswith("/"):
        problem = "may not end with a trailing '/'"
    elif "{" in prefix or "}" in prefix:
        problem = "may not contain wildcards; parameters of a path belong to a FastAPI ingress"
    else:
        return
    raise ValueError(f"Invalid route_prefix {prefix!r}, {problem}. Example: '/models'")
