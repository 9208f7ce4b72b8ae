"""Of `ray.util.state`: what only the services of a cluster know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_NAMES = "get_log list_cluster_events list_logs list_runtime_envs".split()


def __getattr__(name: str) -> Callable[..., Any]:
    """Importable, so that a program runs as far as it does not ask."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def refuse(*args: object, **kwargs: object) -> Any:
        raise NotImplementedError(
            f"ray.util.state.{name}() asks a service of a Ray cluster that does not exist on one "
            "machine: the others of ray.util.state say what there is"
        )

    return refuse
