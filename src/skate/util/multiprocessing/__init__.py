"""`multiprocessing.Pool` on actors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from multiprocessing import JoinableQueue, TimeoutError

    from skate.util.multiprocessing._results import AsyncResult, IMapIterator
    from skate.util.multiprocessing.pool import Pool
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["AsyncResult", "IMapIterator", "JoinableQueue", "Pool", "TimeoutError"]
