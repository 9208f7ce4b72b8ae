"""What searchers have learned and callbacks remember, written now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from skate._run.callbacks import Callback
from skate._run.pickles import signed_pickle, unpickle
from skate.tune.search.search_generator import SearchGenerator

if TYPE_CHECKING:
    from skate._run.storage import Storage
    from skate.tune.search.search_algorithm import SearchAlgorithm

logger: logging.Logger = logging.getLogger(__name__)

STATES_FILE = "callback-states.pkl"
_AT_LEAST_SECONDS = 1.0
_SHARE = 20  # at most one part in this many of the time


class Snapshots:
    """Saves states, at most once a second and never for long. Grids and random draws need none:
    the trials themselves say how far they are."""

    def __init__(
        self, storage: Storage, search_alg: SearchAlgorithm, callbacks: Sequence[object] = ()
    ) -> None:
        self._storage = storage
        self._search_alg = search_alg
        self._callbacks = callbacks
        self._due = time.monotonic() + _AT_LEAST_SECONDS
        self._savers: list[Callable[[], None]] = []
        if isinstance(search_alg, SearchGenerator):
            self._savers.append(self._save_search)
        if any(_has_state(callback) for callback in callbacks):
            self._savers.append(self._save_callbacks)

    def save_if_due(self) -> None:
        """Save if it is time."""
        if self._savers and time.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Save now."""
        start = time.monotonic()
        for saver in list(self._savers):
            try:
                saver()
            except Exception as error:  # what cannot be pickled still works
                self._savers.remove(saver)
                logger.warning("%s: states cannot be saved: %r", self._storage.path, error)
        took = time.monotonic() - start
        self._due = time.monotonic() + max(_AT_LEAST_SECONDS, took * _SHARE)

    def _save_search(self) -> None:
        self._search_alg.save_to_dir(self._storage.local_path)
        self._storage.sync()

    def _save_callbacks(self) -> None:
        save_callbacks(self._storage, self._callbacks)


def _has_state(callback: object) -> bool:
    return getattr(type(callback), "get_state", None) not in (None, Callback.get_state)


def save_callbacks(storage: Storage, callbacks: Sequence[object]) -> None:
    """Write down the states of those that have one, by their places in the list."""
    states = {place: _state(callback) for place, callback in enumerate(callbacks)}
    kept = {place: state for place, state in states.items() if state is not None}
    if kept:
        storage.write(STATES_FILE, signed_pickle(kept))


def restore_callbacks(storage: Storage, callbacks: Sequence[object]) -> None:
    """Give the states back."""
    if not storage.exists(STATES_FILE):
        return
    states = unpickle(storage.read(STATES_FILE), f"{storage.path}/{STATES_FILE}")
    for place, state in states.items():
        if place < len(callbacks):
            callbacks[place].set_state(state)


def _state(callback: object) -> object:
    get_state = getattr(callback, "get_state", None)
    return get_state() if get_state is not None else None
