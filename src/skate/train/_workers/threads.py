"""The threads of a worker's loop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from skate._core.optional_imports import is_installed


@contextmanager
def own_threads() -> Iterator[None]:
    """Keep OpenMP to as many threads as the worker has CPUs. A library that was loaded before the
    fork has read the variable that says so too early, and would use all of the machine: workers
    that wait for each other's threads are slower by an order of magnitude."""
    count = os.environ.get("OMP_NUM_THREADS", "")
    if not count.isdigit() or not is_installed("threadpoolctl"):
        yield
        return
    with import_module("threadpoolctl").threadpool_limits(int(count), user_api="openmp"):
        yield
