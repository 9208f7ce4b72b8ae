"""`ray.experimental.async_api`, which Ray had until 1.0: references can be awaited."""

from __future__ import annotations

import asyncio
from typing import Any


def init() -> None:
    """Do nothing: there is nothing to begin."""


shutdown = init


def as_future(object_ref: Any) -> asyncio.Future[Any]:
    """Return a future of the running loop with the value of a reference.

    Args:
        object_ref: The reference.
    """
    return asyncio.ensure_future(_value(object_ref))


async def _value(object_ref: Any) -> Any:
    return await object_ref
