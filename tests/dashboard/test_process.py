"""The process that serves the page: who may keep its descriptors."""

from __future__ import annotations

from typing import Any

import pytest

from skate.dashboard import process
from skate.dashboard.process import SlowConnections

LIMIT = process._REQUEST_SECONDS


class Cycle:
    def __init__(self, response_complete: bool) -> None:
        self.response_complete = response_complete


class Connection:
    """As uvicorn has it."""

    def __init__(self, cycle: Cycle | None = None) -> None:
        self.cycle = cycle
        self.ended = False
        self.transport: Any = self

    def abort(self) -> None:
        self.ended = True


@pytest.mark.parametrize("cycle", [None, Cycle(True)], ids=["no request", "half of a second one"])
def test_connections_without_a_complete_request_end(cycle: Cycle | None) -> None:
    slow, connection = SlowConnections(), Connection(cycle)
    slow.end([connection], 0.0)
    slow.end([connection], LIMIT)
    assert not connection.ended
    slow.end([connection], LIMIT + 1)
    assert connection.ended


def test_connections_that_are_used_stay() -> None:
    slow = SlowConnections()
    answered, under_way = Connection(), Connection(Cycle(False))
    for second in range(int(3 * LIMIT)):
        answered.cycle = Cycle(True)
        slow.end([answered, under_way], float(second))
    assert not answered.ended
    assert not under_way.ended
