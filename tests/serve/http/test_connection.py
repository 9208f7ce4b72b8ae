"""Connections on their own, beside an event loop that is not asyncio's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from skate.serve._http.connection import connection_class


class Protocol:
    cycle = None

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error


def test_a_transport_without_a_dict_may_end() -> None:
    """Loops written in C have such transports."""
    ended: list[int] = []
    server: Any = SimpleNamespace(closed=lambda: ended.append(1))
    connection = connection_class(Protocol, server)()
    connection.transport = object()
    connection.connection_lost(None)
    assert ended == [1]
