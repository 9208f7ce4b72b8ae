"""Programs that a failed test left running must not disturb the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos import drivers


@pytest.fixture(autouse=True)
def no_runaway_drivers(leaves_nothing: None) -> Iterator[None]:
    yield
    while drivers.spawned:
        drivers.kill(drivers.spawned.pop())
