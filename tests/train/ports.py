"""At which addresses a process listens."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


def listening() -> dict[str, list[str]]:
    """The local addresses, in the kernel's notation, at which this process listens."""
    sockets = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # another thread has closed it meanwhile
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith("socket:"):
                sockets.add(target[len("socket:[") : -1])
    found: dict[str, list[str]] = {"loopback": [], "elsewhere": []}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in sockets:
                address = local.partition(":")[0]
                found["loopback" if address in LOOPBACK else "elsewhere"].append(local)
    return found
