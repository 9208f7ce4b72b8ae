"""`ray.util.client.ray_client_helpers`: with a client or without, it is the same session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import skate
from skate.compat.parts.core.client import _Client, ray


@contextmanager
def connect_to_client_or_not(connect_to_client: bool) -> Iterator[None]:
    yield


@contextmanager
def ray_start_client_server(
    metadata: object = None, ray_connect_handler: Callable[[], object] | None = None
) -> Iterator[_Client]:
    """Begin a session, by `ray_connect_handler` if there is one, and end it.

    There is no server, so that nobody reads `metadata`.
    """
    (ray_connect_handler or skate.init)()
    ray._connected = True
    try:
        yield ray
    finally:
        ray._connected = False
        skate.shutdown()
