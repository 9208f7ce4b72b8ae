"""Asynchronous functions and classes of users."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


def test_an_async_class_keeps_its_event_loop() -> None:
    class Client:
        def __init__(self) -> None:
            self.queue: asyncio.Queue[int] = asyncio.Queue()
            self.loops: set[int] = set()

        async def __call__(self, batch: Any) -> Any:
            self.loops.add(id(asyncio.get_running_loop()))
            await self.queue.put(1)
            await self.queue.get()
            return {"loops": np.array([len(self.loops)])}

    dataset = skate.data.range(12, override_num_blocks=4).map_batches(Client, concurrency=1)
    assert set(dataset.to_pandas()["loops"]) == {1}


def test_an_async_function_overlaps_and_keeps_order() -> None:
    async def later(row: Any) -> Any:
        await asyncio.sleep(0.01 * (3 - row["id"] % 4))
        return {"id": row["id"]}

    rows = skate.data.range(20, override_num_blocks=2).map(later).take_all()
    assert [row["id"] for row in rows] == list(range(20))
