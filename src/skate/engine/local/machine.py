"""What this machine has."""

from __future__ import annotations

import os

from skate._machine import memory, visible_gpus

__all__ = ["cpus", "gpus", "memory", "store_capacity", "visible_gpus"]

_STORE_SHARE = 0.3


def cpus() -> int:
    return len(os.sched_getaffinity(0))


def gpus() -> int:
    """NVIDIA GPUs that this process may use."""
    visible = visible_gpus()
    if visible is not None:
        return len(visible)
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return 0


def store_capacity(shm_dir: str) -> int:
    """How many bytes of objects to keep in shared memory unless told otherwise."""
    free = os.statvfs(shm_dir)
    return int(min(memory() * _STORE_SHARE, free.f_bavail * free.f_frsize * 0.9))
