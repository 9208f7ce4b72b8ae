"""The processes of a system under test, and the memory that they take."""

from __future__ import annotations

import os
import time

# Set for each measuring process; whatever that process starts inherits it, orphans included.
MARKER = "SKATE_BENCHMARK_SESSION"


def engine_megabytes(settle: float = 1.0) -> float:
    """Proportional memory (PSS) of all processes of this session but the driver, in MB."""
    time.sleep(settle)
    return sum(pss_kilobytes(pid) for pid in session_processes()) / 1024


def session_processes() -> set[int]:
    """Our descendants, and orphans that carry the mark (some overwrite it with their title)."""
    import psutil

    mark = f"{MARKER}={os.environ[MARKER]}".encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    marked = {pid for pid in pids if mark in _read(pid, "environ")}
    return marked.union(p.pid for p in psutil.Process().children(recursive=True)) - {os.getpid()}


def pss_kilobytes(pid: int) -> int:
    lines = _read(pid, "smaps_rollup").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(b"Pss:"))


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:  # it has ended meanwhile
        return b""
