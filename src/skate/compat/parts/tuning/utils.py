"""`ray.tune.utils.util`: NaN and infinity, and another attempt."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable


def retry_fn(
    fn: Callable[[], object],
    exception_type: type[Exception] | tuple[type[Exception], ...] = Exception,
    num_retries: int = 3,
    sleep_time: float = 1,
    timeout: float | None = None,
) -> bool:
    """Return whether one of so many calls has ended well, and in time; the others are left
    alone."""
    for attempt in range(num_retries):
        if attempt:
            time.sleep(sleep_time)
        if _ends_well(fn, exception_type, timeout):
            return True
    return False


def _ends_well(
    fn: Callable[[], object],
    expected: type[Exception] | tuple[type[Exception], ...],
    timeout: float | None,
) -> bool:
    done = threading.Event()

    def attempt() -> None:
        try:
            fn()
        except expected:
            return
        done.set()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout)
    return done.is_set()


def is_nan(value: object) -> bool:
    """Return whether it is NaN."""
    return isinstance(value, float) and math.isnan(value)


def is_nan_or_inf(value: object) -> bool:
    """Return whether it is no finite number."""
    return isinstance(value, float) and not math.isfinite(value)
