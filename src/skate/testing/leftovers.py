"""What a test may leave behind: a picture before, a picture after, and the difference.

Processes and open files are looked up in `/proc`: elsewhere than on Linux there are none to see.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import tempfile
import threading
import time
from dataclasses import dataclass, fields

GRACE_SECONDS = 10.0  # a machine may be slow, and busy with other tests

# Inherited by every process that a test starts, so that orphans are found as well.
MARKER = "SKATE_TEST_SESSION"

_OF_KERNEL = (0, 2)  # parents of its own threads, and of the first process
_foreign: dict[bytes, set[int]] = {}  # processes of others that were seen, by the marker here

# Variables that skate, its workers or programs for Ray obey, by how their names begin.
OBEYED = ("SKATE_", "TUNE_", "CUDA_", "OMP_", "PYTHONPATH")


@dataclass(frozen=True)
class Picture:
    """Everything that a test could leave, as it is now.

    Attributes:
        processes: Processes that this one has started, and orphans of theirs.
        threads: Threads of this process.
        descriptors: Files and sockets that this process has open.
        files: Files and folders of skate's in `/dev/shm` and the folder for temporary files.
        surroundings: The working directory, and environment variables that skate obeys.
    """

    processes: frozenset[str]
    threads: frozenset[str]
    descriptors: frozenset[str]
    files: frozenset[str]
    surroundings: frozenset[str]

    @classmethod
    def take(cls) -> Picture:
        """Return the picture of this moment."""
        return cls(_processes(), _threads(), _descriptors(), _files(), _surroundings())

    def new_since(self, before: Picture, except_for: str = "") -> list[str]:
        """Return a line for each thing that is here and not in `before`.

        Args:
            before: The earlier picture.
            except_for: The name of an attribute that does not count.
        """
        known = {_pid_of(text) for text in before.processes}  # whatever they were called then
        return [
            f"{field.name}: {item}"
            for field in fields(self)
            if field.name != except_for
            for item in sorted(getattr(self, field.name) - getattr(before, field.name))
            if field.name != "processes" or not (_pid_of(item) in known or _is_bare(item))
        ]


def leftovers_since(before: Picture, except_for: str = "") -> list[str]:
    """Return a line for each thing that has appeared since `before` and does not go away.

    Args:
        before: The picture of a time before.
        except_for: The name of an attribute of `Picture` that does not count.
    """
    deadline = time.monotonic() + GRACE_SECONDS
    while found := Picture.take().new_since(before, except_for):
        if time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.01)
    return [line + _content(line.removeprefix("files: ")) for line in found]


def _content(path: str) -> str:
    """Return what is in a folder that was left, which tells who was too late to remove it."""
    with contextlib.suppress(OSError):
        return f" with {sorted(os.listdir(path))}"
    return ""


def kill_marked_processes() -> None:
    """Kill whatever this test session has started and is still there."""
    for pid in _started_here():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _processes() -> frozenset[str]:
    return frozenset(text for pid in _started_here() if (text := _describe(pid)))


def _pid_of(text: str) -> str:
    return text.partition(" ")[0]


def _is_bare(text: str) -> bool:
    """Return whether a process has no command line.

    It waits to be reaped, or is just being executed: then the next picture has it with one.
    """
    return text.endswith(" ") and text.count(" ") == 1


def _started_here() -> set[int]:
    """Return descendants of this process, and whoever carries the marker of this test session.

    A process that is neither will never be, and is not looked at again: a test has two pictures
    or more, and there may be hundreds of processes.
    """
    mark, own, pids = _mark(), os.getpid(), set(_pids())
    foreign = _foreign.setdefault(mark, set())
    foreign &= pids
    parents = {pid: parent for pid in pids - foreign if (parent := _parent(pid)) is not None}
    environments = {pid: _environment(pid) for pid in parents if pid != own}
    found = {pid for pid, text in environments.items() if text is not None and mark in text}
    family = {own}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    # What is just being executed has no environment for a moment; some never have one.
    bare = {pid for pid, text in environments.items() if text == b""}
    known = {pid for pid in environments if pid not in bare or parents[pid] in _OF_KERNEL}
    foreign |= known - found - family
    return found | family - {own}


def _pids() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _parent(pid: int) -> int | None:
    """Return the parent of a process, or None if it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])  # a name may have parentheses
    return None


def _mark() -> bytes:
    return f"{MARKER}={os.environ.get(MARKER)}".encode()


def _environment(pid: int) -> bytes | None:
    """Return the environment that a process began with; None if only others may see it."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except PermissionError:
        return None
    except OSError:
        return b""


def _describe(pid: int) -> str | None:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().replace(bytes(1), b" ").decode(errors="replace")
        return f"{pid} {words[:200]}"
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
        if "skate" in name and not _of_somebody_else(place, name)
    )


def _of_somebody_else(place: str, name: str) -> bool:
    """Return whether a file belongs to a process that is none of this test session.

    It is alive, or was killed: then it has left the home of a session whose other folders are
    elsewhere, or one without a lock. Whose that was nobody knows; a later start removes it.
    """
    pids = {int(number) for number in re.findall(r"\d+", name)} - {os.getpid()}
    if any((text := _environment(pid)) and _mark() not in text for pid in pids):
        return True
    home = os.path.join(place, name)
    if place == "/dev/shm" and not any(map(_is_alive, pids)) and _is_unfinished(home):
        return True
    elsewhere = _other_places(os.path.join(home, "lock"))
    here = os.path.realpath(tempfile.gettempdir())
    return bool(elsewhere) and not any(
        os.path.realpath(path).startswith(here) for path in elsewhere
    )


def _is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def _is_unfinished(home: str) -> bool:
    """Return whether the home of a session was being made, and nothing is in it yet."""
    with contextlib.suppress(OSError):
        return not set(os.listdir(home)) - {"lock.new"}
    return False


def _other_places(lock: str) -> list[str]:
    """Return where else a session has folders, which the lock in its home says."""
    with contextlib.suppress(OSError), open(lock, "rb") as file:
        return [os.fsdecode(path) for path in file.read().split(b"\0") if path]
    return []


def _surroundings() -> frozenset[str]:
    """Note what later tests would find changed: the working directory, and variables."""
    variables = {f"{n}={value}" for n, value in os.environ.items() if n.startswith(OBEYED)}
    return frozenset(variables | {f"cwd={os.getcwd()}"})
