"""What this machine, or the container, has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple


def memory() -> int:
    """Return how many bytes of memory there are, or the container's share of them."""
    return memory_gauge().total


@cache
def memory_gauge() -> MemoryGauge:
    """Return the gauge of this process, made once: where to look takes longer than to look."""
    return MemoryGauge()


class MemoryUse(NamedTuple):
    """How much memory is used, of how much, in bytes."""

    used: int
    total: int


class MemoryGauge:
    """Reads how much memory is left where it is shortest: in the machine, or in one of the control
    groups (v1 or v2) that this process is in and that have a limit.

    What the system could take back at once, such as cached files, does not count as used.
    """

    def __init__(self, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> None:
        self._meminfo = f"{proc}/meminfo"
        self._machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._groups = list(_limited_groups(proc, cgroups, self._machine))

    @property
    def total(self) -> int:
        """What there would be if nothing was used."""
        return min([self._machine, *(group.limit() or self._machine for group in self._groups)])

    def read(self) -> MemoryUse | None:
        """Return how much is used where least is left; None if the system does not tell."""
        found = [use for group in self._groups if (use := group.read()) is not None]
        if (machine := self._of_machine()) is not None:
            found.append(machine)
        return min(found, key=lambda use: use.total - use.used, default=None)

    def _of_machine(self) -> MemoryUse | None:
        values = _values(self._meminfo, b"MemTotal:", b"MemAvailable:")
        if len(values) < 2:
            return None
        total, available = (value * 1024 for value in values)
        return MemoryUse(total - available, total)


class _ControlGroup(NamedTuple):
    """The files of a control group that tell its limit and use of memory."""

    limit_file: str
    use_file: str
    stat_file: str
    reclaimable: bytes  # in the last one

    def limit(self) -> int | None:
        return _number(self.limit_file)

    def read(self) -> MemoryUse | None:
        limit, used = self.limit(), _number(self.use_file)
        if limit is None or used is None:
            return None
        cached = _values(self.stat_file, self.reclaimable)
        return MemoryUse(used - (cached[0] if cached else 0), limit)


def _limited_groups(proc: str, root: str, machine: int) -> Iterator[_ControlGroup]:
    """Yield the control groups around this process that have a limit below `machine`."""
    try:
        with open(f"{proc}/self/cgroup") as file:
            lines = [line.strip().split(":", 2) for line in file]
    except OSError:
        return
    in_v1 = any("memory" in controllers.split(",") for _, controllers, _ in lines)
    for _, controllers, path in lines:
        if controllers == "" and not in_v1:
            mount, files = root, ("memory.max", "memory.current")
            reclaimable = b"inactive_file "
        elif "memory" in controllers.split(","):
            mount, files = f"{root}/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
            reclaimable = b"total_inactive_file "
        else:
            continue
        for folder in _upwards(mount, path):
            limit, use = (f"{folder}/{name}" for name in files)
            group = _ControlGroup(limit, use, f"{folder}/memory.stat", reclaimable)
            if (found := group.limit()) is not None and found < machine:
                yield group


def _upwards(mount: str, path: str) -> Iterator[str]:
    """Yield a folder below the mount and those above. A container may show only the last."""
    parts = [part for part in path.split("/") if part and part != ".."]
    for count in range(len(parts), -1, -1):
        yield "/".join([mount, *parts[:count]])


def _number(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            return int(file.read())
    except (OSError, ValueError):  # "max": there is no limit
        return None


def _values(path: str, *names: bytes) -> list[int]:
    """Return the numbers behind these beginnings of lines, in order; shorter if one is missing."""
    try:
        with open(path, "rb") as file:
            text = b"\n" + file.read()
    except OSError:
        return []
    places = [text.find(b"\n" + name) + 1 + len(name) for name in names if b"\n" + name in text]
    return [int(text[place : text.index(b"\n", place)].split()[0]) for place in places]


class ProcessMemory(NamedTuple):
    """Bytes of memory that a process has for itself: now, and at its peak (all that it uses)."""

    private: int
    peak: int


def process_memory(pid: int) -> ProcessMemory | None:
    """Return how much memory a process uses, without what it shares; None if it is gone."""
    values = _values(f"/proc/{pid}/status", b"RssAnon:", b"VmHWM:")
    return ProcessMemory(*(value * 1024 for value in values)) if len(values) == 2 else None
