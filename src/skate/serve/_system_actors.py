"""How the actors begin that a whole instance has one of: the controller, the server of gRPC."""

from __future__ import annotations

import os
from typing import Any

import skate
from skate.serve._identity import NAMESPACE

MAX_CALLS = 100_000  # at a time: most of them wait for something to happen


def lists_calls() -> bool:
    """Return whether the state API and the timeline show calls of serve's own actors: only if
    Ray's setting of the environment asks for it."""
    return os.environ.get("RAY_SERVE_ENABLE_TASK_EVENTS", "0") == "1"


def system_actor(kind: type, name: str, **options: Any) -> Any:
    """Return the class of an actor that is there once, until serving is shut down; `remote(...)`
    of it starts the actor, or finds the one that runs.

    Args:
        kind: The class.
        name: The name of the actor.
        options: Further options of it.
    """
    actor_class: Any = skate.remote(kind)
    return actor_class.options(
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=MAX_CALLS,
        enable_task_events=lists_calls(),
        **options,
    )
