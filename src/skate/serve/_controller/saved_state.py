"""The controller's state, which outlives its process.

It is kept by an actor that does nothing else, by all replicas, and by the process that started the
controller (`_client.StateBackup`). So it survives the end of all the others at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import skate
from skate.exceptions import SkateError
from skate.serve._controller import replica_actors
from skate.serve._identity import NAMESPACE, STATE_STORE
from skate.serve._system_actors import lists_calls

if TYPE_CHECKING:
    from skate import ObjectRef
    from skate.serve._application.specs import ApplicationSpec
    from skate.serve._identity import DeploymentID, StateStoreHandle
    from skate.serve.config import HTTPOptions

_REPLICA_SECONDS = 1.0  # for a replica to tell the state that it keeps
_BACKUP_SECONDS = 5.0  # for the process that started the controller: its call comes by itself


class ControllerState(NamedTuple):
    """What a controller needs to go on where another one ended."""

    saved_at: float  # seconds since 1970
    applications: list[ApplicationSpec]
    replica_counts: dict[DeploymentID, int]  # which are aimed at
    http: HTTPOptions | None
    target_capacity: float | None
    configs: dict[str, dict[str, Any]]  # what config files said, by application
    failures: dict[str, tuple[str, float]]  # why there is nothing to deploy, since when; likewise


# In a list, so that who is given it gets the reference, and not the state.
StateReference: TypeAlias = "list[ObjectRef[ControllerState]] | None"


class StateStore:
    """Actor with the last state that was saved. It holds no logic, so that it does not fail."""

    def __init__(self) -> None:
        self._state: ControllerState | None = None

    async def save(self, state: ControllerState) -> None:
        """Keep this state."""
        self._state = state

    async def load(self) -> ControllerState | None:
        """Return the last state; None before there is one."""
        return self._state

    @skate.method(enable_task_events=False)
    async def ended(self) -> None:
        """Wait for ever: the call fails when the actor is gone."""
        await asyncio.Event().wait()


def _find_or_start_store() -> StateStoreHandle:
    store = skate.remote(StateStore).options(
        name=STATE_STORE,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        enable_task_events=lists_calls(),
    )
    actor: StateStoreHandle = store.remote()
    return actor


def _find_store() -> StateStoreHandle | None:
    try:
        found: StateStoreHandle = skate.get_actor(STATE_STORE, namespace=NAMESPACE)
    except ValueError:
        return None
    return found


class SavedState:
    """Saves the controller's state, and finds it again. The store begins with the first state."""

    def __init__(self) -> None:
        self._store: Any = None  # the actor, once there is one
        self._has_store = asyncio.Event()
        self._backup: ControllerState | None = None
        self._backup_came = asyncio.Event()

    def receive_backup(self, state: ControllerState | None) -> None:
        """Take the state that the process that started the controller knows."""
        self._backup = state
        self._backup_came.set()

    async def wait_for_backup(self) -> ControllerState | None:
        """Return that state, for when nobody else has one; None if it does not come."""
        try:
            await asyncio.wait_for(self._backup_came.wait(), _BACKUP_SECONDS)
        except asyncio.TimeoutError:
            return None
        return self._backup

    async def load_last(self) -> ControllerState | None:
        """Return what the controller before this one saved; None if there was none."""
        state: ControllerState | None = None
        store = _find_store()
        if store is not None:
            try:
                state = await store.load.remote()
                self._use(store)
            except SkateError:  # it is dying
                self._use(_find_or_start_store())
        return await _load_from_replicas() if state is None else state

    def _use(self, store: StateStoreHandle) -> None:
        self._store = store
        self._has_store.set()

    def save(self, state: ControllerState) -> None:
        """Have the store keep this state."""
        if self._store is None:
            self._use(_find_or_start_store())
        self._store.save.remote(state)

    async def replace_lost_store(self, save_again: Callable[[], None]) -> None:
        """Start another store, should this one die, and have `save_again` tell it the state."""
        await self._has_store.wait()
        while True:
            try:
                await self._store.ended.remote()
            except SkateError:
                if not skate.is_initialized():
                    return  # it ended with everything else
                self._store = _find_or_start_store()
                save_again()


async def _load_from_replicas() -> ControllerState | None:
    """Return the newest of the states that the replicas keep."""
    asked = [actor.saved_state.remote().as_future() for _, actor in replica_actors.find_running()]
    if not asked:
        return None
    done, _ = await asyncio.wait(asked, timeout=_REPLICA_SECONDS)
    answers = [future.result() for future in done if future.exception() is None]
    states: list[ControllerState] = []
    for answer in answers:
        try:
            states += [await ref for ref in answer or ()]
        except SkateError:  # its owner took it along
            continue
    return max(states, key=lambda state: state.saved_at, default=None)
