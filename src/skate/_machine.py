"""What this machine, or the container, has."""

from __future__ import annotations

import os

_CONTAINER_LIMIT = "/sys/fs/cgroup/memory.max"


def memory() -> int:
    """Bytes of memory, or of the container's share of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open(_CONTAINER_LIMIT) as file:
            limit = file.read().strip()
        return total if limit == "max" else min(total, int(limit))
    except (OSError, ValueError):
        return total
