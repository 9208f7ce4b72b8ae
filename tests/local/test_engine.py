"""The engine of the driver and that of workers, as objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import skate
from skate.engine import installed_engine
from tests.support import PATIENCE

# CPython keeps the attributes of an object in a fast form up to this number; with one more, every
# look at any of them is slower, and a call of `get` by a tenth.
MOST_ATTRIBUTES = 30


def attributes_of_worker() -> dict[str, int]:
    engine = installed_engine()
    parts = (engine, engine.execution, engine.reactor)  # type: ignore[union-attr]
    return {type(part).__name__: len(vars(part)) for part in parts}


def test_what_every_call_looks_at_has_few_attributes() -> None:
    skate.init(num_cpus=1)
    try:
        engine: Any = installed_engine()
        hub = engine.hub
        parts = (engine, engine.reactor, hub, hub.scheduler, hub.tasks, hub.values)
        counts = {type(part).__name__: len(vars(part)) for part in parts}
        counts |= skate.get(skate.remote(attributes_of_worker).remote())
    finally:
        skate.shutdown()
    assert {"LocalEngine", "Hub", "Reactor", "WorkerEngine", "Execution"} < set(counts)
    assert not {name: count for name, count in counts.items() if count > MOST_ATTRIBUTES}


def test_a_stream_of_a_session_that_has_ended_is_not_awaited() -> None:
    skate.init(num_cpus=1)

    @skate.remote
    class Silent:
        async def items(self) -> AsyncIterator[None]:
            await asyncio.Event().wait()
            yield

    stream = Silent.remote().items.remote()
    skate.shutdown()

    async def first() -> object:
        return await asyncio.wait_for(stream.__anext__(), PATIENCE)

    with pytest.raises(skate.exceptions.StaleReferenceError):
        asyncio.run(first())
