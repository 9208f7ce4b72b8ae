"""What a test may leave behind: a picture before, a picture after, and the difference."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import tempfile
import threading
import time
from dataclasses import dataclass, fields

import psutil

GRACE_SECONDS = 10.0  # a machine may be slow, and busy with other tests

# Inherited by every process that a test starts, so that orphans are found as well.
MARKER = "SKATE_TEST_SESSION"

# Variables that skate, its workers or programs for Ray obey, by how their names begin.
OBEYED = ("SKATE_", "TUNE_", "CUDA_", "OMP_", "PYTHONPATH")


@dataclass(frozen=True)
class Picture:
    """Everything that a test could leave, as it is now."""

    processes: frozenset[str]
    threads: frozenset[str]
    descriptors: frozenset[str]
    files: frozenset[str]
    surroundings: frozenset[str]

    @classmethod
    def take(cls) -> Picture:
        return cls(_processes(), _threads(), _descriptors(), _files(), _surroundings())

    def new_since(self, before: Picture, except_for: str = "") -> list[str]:
        return [
            f"{field.name}: {item}"
            for field in fields(self)
            if field.name != except_for
            for item in sorted(getattr(self, field.name) - getattr(before, field.name))
        ]


def leftovers_since(before: Picture, except_for: str = "") -> list[str]:
    """What has appeared since `before` and does not go away within the grace period."""
    deadline = time.monotonic() + GRACE_SECONDS
    while found := Picture.take().new_since(before, except_for):
        if time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.01)
    return found


def kill_marked_processes() -> None:
    """Kill whatever this test session has started and is still there."""
    for process in _started_here():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _processes() -> frozenset[str]:
    return frozenset(text for process in _started_here() if (text := _describe(process)))


def _started_here() -> list[psutil.Process]:
    """Descendants of this process, and whoever carries the marker of this test session."""
    mark = _mark()
    found = {p.pid: p for p in psutil.Process().children(recursive=True)}
    for pid in psutil.pids():
        if pid not in found and pid != os.getpid() and mark in _environment(pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                found[pid] = psutil.Process(pid)
    return [*found.values()]


def _mark() -> bytes:
    return f"{MARKER}={os.environ.get(MARKER)}".encode()


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _describe(process: psutil.Process) -> str | None:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.NoSuchProcess:
        return None


def _threads() -> frozenset[str]:
    return frozenset(f"{t.name} ({t.ident})" for t in threading.enumerate())


def _descriptors() -> frozenset[str]:
    if not os.path.isdir("/proc/self/fd"):
        return frozenset()
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own descriptor is gone by now
            found.add(f"{name} -> {os.readlink(f'/proc/self/fd/{name}')}")
    return frozenset(found)


def _files() -> frozenset[str]:
    places = {"/dev/shm", tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", "/dev/shm")}
    return frozenset(
        os.path.join(place, name)
        for place in places
        if os.path.isdir(place)
        for name in os.listdir(place)
        if "skate" in name and not _of_somebody_else(name)
    )


def _of_somebody_else(name: str) -> bool:
    """Whether the process that the name mentions is alive and none of this test session."""
    pids = {int(number) for number in re.findall(r"\d+", name)} - {os.getpid()}
    return any((text := _environment(pid)) and _mark() not in text for pid in pids)


def _surroundings() -> frozenset[str]:
    """What later tests would find changed: the working directory, and variables."""
    variables = {f"{n}={value}" for n, value in os.environ.items() if n.startswith(OBEYED)}
    return frozenset(variables | {f"cwd={os.getcwd()}"})
