"""Memory of workers: kept for the next batch, where the C library would give it back."""

from __future__ import annotations

import ctypes
import os
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_… of <malloc.h>
_LARGEST_KEPT = 64 << 20  # bytes of an array that is made of memory that was used before
_LARGEST_OF_OLDER = 32 << 20  # which is as much as the C library allowed before 2.35
_MOST_FREE = 128 << 20  # bytes that a worker keeps for later
_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


@cache
def keep_memory() -> None:
    """Let arrays of the next batch be made where those of the last one were.

    By default each array of some megabytes is new memory of the system, which clears it page by
    page as it is touched, and gets it back right after: of decoding and transforming images that
    is a third. What the user has set by variables stays as it is.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in _VARIABLES):
        return
    mallopt(_TRIM_THRESHOLD, _MOST_FREE)
    if not mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT):
        mallopt(_MMAP_THRESHOLD, _LARGEST_OF_OLDER)
