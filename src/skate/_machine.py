"""What this machine, or the container, has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

_CONTAINER_LIMIT = "/sys/fs/cgroup/memory.max"


def visible_gpus() -> list[int | str] | None:
    """The GPUs that this process may use, by number or name; None if nobody has limited them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    return [gpu_id(part) for part in visible.split(",") if part.strip() not in ("", "-1")]


def gpu_id(text: str) -> int | str:
    """A GPU as CUDA_VISIBLE_DEVICES has it: its number, or a name such as "GPU-8932f937"."""
    return int(text) if text.strip().isdigit() else text.strip()


def gpu_ids(numbers: Iterable[int], visible: Sequence[int | str] | None) -> tuple[int | str, ...]:
    """The n-th of the visible GPUs, for each number; n itself if there is none."""
    known = visible or ()
    return tuple(known[number] if number < len(known) else number for number in numbers)


def memory() -> int:
    """Bytes of memory, or of the container's share of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open(_CONTAINER_LIMIT) as file:
            limit = file.read().strip()
        return total if limit == "max" else min(total, int(limit))
    except (OSError, ValueError):
        return total
