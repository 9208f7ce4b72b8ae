"""What this machine has."""

from __future__ import annotations

import os
from collections.abc import Mapping

from skate._core.accelerators import visible_ids
from skate._core.machine import memory

__all__ = ["cpus", "gpus", "memory", "memory_settings", "resources", "store_capacity"]

_STORE_SHARE = 0.3
# Names of settings of the memory guard, here and in Ray, and what they are unless set.
_THRESHOLD = ("SKATE_MEMORY_USAGE_THRESHOLD", "RAY_memory_usage_threshold", 0.95)
_REFRESH_MS = ("SKATE_MEMORY_MONITOR_REFRESH_MS", "RAY_memory_monitor_refresh_ms", 250.0)


def cpus() -> int:
    return len(os.sched_getaffinity(0))


def gpus() -> int:
    """Count the GPUs of NVIDIA or AMD that this process may use."""
    detected = _count("/proc/driver/nvidia/gpus") or _amd_gpus()
    if not detected and "CUDA_VISIBLE_DEVICES" not in os.environ:
        return 0
    visible = visible_ids("GPU")
    return detected if visible is None else len(visible)


def _count(folder: str) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


def _amd_gpus() -> int:
    """Count nodes of the driver's topology that have an id as a GPU; the others are processors."""
    if not os.path.exists("/dev/kfd"):
        return 0
    from glob import glob

    count = 0
    for path in glob("/sys/class/kfd/kfd/topology/nodes/*/gpu_id"):
        try:
            with open(path) as file:
                count += file.read().strip() not in ("", "0")
        except OSError:
            pass
    return count


def resources(
    num_cpus: float | None,
    num_gpus: float | None,
    memory_bytes: int | None,
    custom: Mapping[str, float] | None,
    capacity: int,
) -> dict[str, float]:
    """Return what there is of each resource: what was said, else what this machine has.

    `capacity` are the bytes of the object store.
    """
    return {
        "CPU": cpus() if num_cpus is None else num_cpus,
        "GPU": gpus() if num_gpus is None else num_gpus,
        "memory": memory_bytes or max(0, memory() - capacity),
        "object_store_memory": capacity,
        "node:127.0.0.1": 1.0,
        "node:__internal_head__": 1.0,
        **(custom or {}),
    }


def store_capacity(shm_dir: str) -> int:
    """Return how many bytes of objects to keep in shared memory unless told otherwise."""
    free = os.statvfs(shm_dir)
    return int(min(memory() * _STORE_SHARE, free.f_bavail * free.f_frsize * 0.9))


def memory_settings(given: Mapping[str, object]) -> tuple[float, float]:
    """Return which share of memory may be used before workers are ended, and how many seconds
    pass between two looks at it; 0: nobody looks. ValueError for settings that make no sense.

    `given` are those of the program, under Ray's names; others are in the environment.
    """
    threshold = _setting(given, *_THRESHOLD)
    if threshold > 1:
        raise ValueError(f"{_THRESHOLD[0]} takes a share between 0 and 1; got {threshold:g}")
    return threshold, _setting(given, *_REFRESH_MS) / 1000


def _setting(given: Mapping[str, object], name: str, of_ray: str, default: float) -> float:
    of_program = of_ray.removeprefix("RAY_")
    for place, value in (
        (of_program, given.get(of_program)),
        (name, os.environ.get(name)),
        (of_ray, os.environ.get(of_ray)),
    ):
        if value is None or value == "":
            continue
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = -1.0
        if not 0 <= number < float("inf"):
            raise ValueError(f"{place} takes a number of at least 0; got {value!r}")
        return number
    return default
