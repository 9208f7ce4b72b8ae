"""`ray.util.client.ray_client_helpers`: with a client or without, it is the same session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def connect_to_client_or_not(connect_to_client: bool) -> Iterator[None]:
    yield
