"""Copying large pieces of memory: with several threads where that pays."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

_SHARE_BYTES = 16 << 20  # for which it is worth starting a thread (some 50 µs)
_MOST_THREADS = 4  # more do not make memory faster


def copy(target: memoryview, source: Any) -> None:
    """Copy `source`, of equal length, into `target`. NumPy lets other threads run meanwhile,
    slices of memoryviews do not; whoever has arrays this large has imported it."""
    numpy = sys.modules.get("numpy")
    count = min(_MOST_THREADS, len(os.sched_getaffinity(0)), len(target) // _SHARE_BYTES)
    if count < 2 or not hasattr(numpy, "copyto"):
        target[:] = source
        return
    step = -(-len(target) // count)
    threads = [
        threading.Thread(target=_copy_part, args=(numpy, target, source, start, start + step))
        for start in range(step, len(target), step)
    ]
    for thread in threads:
        thread.start()
    _copy_part(numpy, target, source, 0, step)
    for thread in threads:
        thread.join()


def _copy_part(numpy: Any, target: memoryview, source: Any, start: int, stop: int) -> None:
    into = numpy.frombuffer(target, numpy.uint8)[start:stop]
    numpy.copyto(into, numpy.frombuffer(source, numpy.uint8)[start:stop])
