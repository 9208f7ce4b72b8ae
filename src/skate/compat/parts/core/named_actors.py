"""`ray.util.named_actors`, which Ray had until 1.2: names are given where actors are made."""

from __future__ import annotations

from typing import Any, NoReturn

from skate import get_actor as get_actor


def register_actor(name: str, actor_handle: Any) -> NoReturn:
    """Refuse to name an actor that runs.

    Args:
        name: The name that it was to have.
        actor_handle: The actor.
    """
    raise RuntimeError(
        f"an actor gets its name when it is made: write Actor.options(name={name!r}).remote(...) "
        f"in the place of register_actor; got {actor_handle!r}"
    )
