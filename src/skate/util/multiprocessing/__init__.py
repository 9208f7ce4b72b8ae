"""`multiprocessing.Pool` on actors."""

from __future__ import annotations

from multiprocessing import JoinableQueue, TimeoutError

from skate.util.multiprocessing._results import AsyncResult, IMapIterator
from skate.util.multiprocessing.pool import Pool

__all__ = ["AsyncResult", "IMapIterator", "JoinableQueue", "Pool", "TimeoutError"]
