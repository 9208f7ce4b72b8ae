"""What searchers have learned, written now and then."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from skate.tune.search.search_generator import SearchGenerator

if TYPE_CHECKING:
    from skate._run.storage import Storage
    from skate.tune.search.search_algorithm import SearchAlgorithm

logger = logging.getLogger(__name__)

_AT_LEAST = 1.0
_SHARE = 20  # at most one part in this many of the time


class Snapshots:
    """Saves a searcher's state, at most once a second and never for long. Grids and random draws
    need none: the trials themselves say how far they are."""

    def __init__(self, storage: Storage, search_alg: SearchAlgorithm) -> None:
        self._storage = storage
        self._search_alg = search_alg
        self._due = time.monotonic() + _AT_LEAST
        self._works = isinstance(search_alg, SearchGenerator)

    def save_if_due(self) -> None:
        """Save if it is time."""
        if self._works and time.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Save now."""
        if not self._works:
            return
        start = time.monotonic()
        try:
            self._search_alg.save_to_dir(self._storage.local_path)
            self._storage.sync()
        except Exception as error:  # a searcher that cannot be pickled still searches
            self._works = False
            logger.warning("the state of %r cannot be saved: %r", self._search_alg, error)
        took = time.monotonic() - start
        self._due = time.monotonic() + max(_AT_LEAST, took * _SHARE)
