"""What callbacks remember, for when the experiment is taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate._run.pickles import signed_pickle, unpickle

if TYPE_CHECKING:
    from skate._run.storage import Storage

STATES_FILE = "callback-states.pkl"


def save_callbacks(storage: Storage, callbacks: Sequence[Any]) -> None:
    """Write down the states of those that have one, by their places in the list."""
    states = {place: _state(callback) for place, callback in enumerate(callbacks)}
    kept = {place: state for place, state in states.items() if state is not None}
    if kept:
        storage.write(STATES_FILE, signed_pickle(kept))


def restore_callbacks(storage: Storage, callbacks: Sequence[Any]) -> None:
    """Give the states back."""
    if not storage.exists(STATES_FILE):
        return
    states = unpickle(storage.read(STATES_FILE), f"{storage.path}/{STATES_FILE}")
    for place, state in states.items():
        if place < len(callbacks):
            callbacks[place].set_state(state)


def _state(callback: Any) -> Any:
    get_state = getattr(callback, "get_state", None)
    return get_state() if get_state is not None else None
