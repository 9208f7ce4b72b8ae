"""What outlives the controller's process.

The state is kept by an actor that does nothing else, by all replicas, and by the process that
started the controller (`_client.Witness`). So it survives the end of all the others at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import skate
from skate.exceptions import SkateError
from skate.serve._controller import replica_actors
from skate.serve._identity import MEMORY, NAMESPACE

_PATIENCE = 1.0  # seconds for a replica to tell what it keeps
_HEARING = 5.0  # seconds for the witness, whose call comes by itself


class Memory:
    """The last state that the controller saved. It holds no logic, so that it does not fail."""

    def __init__(self) -> None:
        self._state: Any = None

    async def save(self, state: Any) -> None:
        self._state = state

    async def load(self) -> Any:
        return self._state

    async def ended(self) -> None:
        """Never answered: fails when the actor is gone."""
        await asyncio.Event().wait()


def _find_or_start() -> Any:
    memory = skate.remote(Memory).options(
        name=MEMORY, namespace=NAMESPACE, lifetime="detached", get_if_exists=True
    )
    return memory.remote()


class Keeper:
    """The controller's way to its memory."""

    def __init__(self) -> None:
        self._actor: Any = None
        self._testimony: Any = None
        self._heard = asyncio.Event()

    def hear(self, state: Any) -> None:
        """What the process that started the controller knows."""
        self._testimony = state
        self._heard.set()

    async def ask_witness(self) -> Any:
        """For when nobody else remembers anything."""
        try:
            await asyncio.wait_for(self._heard.wait(), _HEARING)
        except asyncio.TimeoutError:
            return None
        return self._testimony

    async def recall(self) -> Any:
        """What the former controller saved; None if there was none."""
        state = None
        try:
            self._actor = _find_or_start()
            state = await self._actor.load.remote()
        except SkateError:  # it is dying
            self._actor = _find_or_start()
        return await _kept_by_replicas() if state is None else state

    def save(self, state: Any) -> None:
        self._actor.save.remote(state)

    async def keep_alive(self, save_again: Callable[[], None]) -> None:
        """Should the memory's process die, another one is told what this controller knows."""
        while True:
            try:
                await self._actor.ended.remote()
            except SkateError:
                if not skate.is_initialized():
                    return  # it ended with everything else
                self._actor = _find_or_start()
                save_again()


async def _kept_by_replicas() -> Any:
    """The newest of what the replicas keep."""
    asked = [actor.kept.remote().as_future() for _, actor in replica_actors.find_running()]
    if not asked:
        return None
    done, _ = await asyncio.wait(asked, timeout=_PATIENCE)
    answers = [future.result() for future in done if future.exception() is None]
    states = []
    for answer in answers:
        try:
            states += [await ref for ref in answer or ()]
        except SkateError:  # its owner took it along
            continue
    return max(states, key=lambda state: state[0], default=None)
