"""`ray.util.multiprocessing.Pool`, where that of skate does as the standard library instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from skate.util import multiprocessing

__all__ = ["IMapIterator", "Pool"]


class IMapIterator(multiprocessing.IMapIterator):
    """Iterates over results; what a call has raised is one of them."""

    def next(self, timeout: float | None = None) -> object:
        """Return the next result, or exception.

        Args:
            timeout: Seconds to wait at the most; None waits for ever.
        """
        return self._next_outcome(timeout)[1]


class Pool(multiprocessing.Pool):
    """Takes what is no iterable for a list of one, and gives exceptions as results of `imap`."""

    _lazily = IMapIterator

    def _imap(
        self,
        func: Callable[..., Any],
        iterable: Iterable[object],
        chunksize: int | None,
        ordered: bool,
    ) -> multiprocessing.IMapIterator:
        if not isinstance(iterable, Iterable):
            warnings.warn(
                "Passing a non-iterable argument: it is taken for a list of one", stacklevel=3
            )
            iterable = [iterable]
        return super()._imap(func, iterable, chunksize, ordered)
