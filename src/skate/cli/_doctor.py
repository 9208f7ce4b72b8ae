"""`skate doctor`: what about this machine will slow a program down or stop it, and the way out.

A check is a function of the `Place` it looks at, and yields findings. Each looks at one thing, in
milliseconds; only those of packages start a process, since a broken one may take its own down.
"""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from types import ModuleType
from typing import NamedTuple

from skate._core import machine
from skate.cli._tables import json_option, show_rows

_MB = 1 << 20
_GB = 1 << 30
_LEAST_SHARED_MEMORY_BYTES = _GB
_LEAST_FREE_DISK_BYTES = _GB
_LEAST_FREE_MEMORY_BYTES = 512 * _MB
_LEAST_OPEN_FILES = 1024
_LEAST_PROCESSES = 512
_LONGEST_SOCKET_FOLDER = 60  # characters; the kernel takes 107 for a socket, and we add 45
_IMPORT_SECONDS = 60.0
_OLDEST = {
    "pyarrow": (14, 0, 1), "numpy": (1, 24), "pandas": (2, 0), "torch": (2, 1), "polars": (1, 0),
    "optuna": (3, 5), "tensorflow": (2, 15), "uvicorn": (0, 27), "starlette": (0, 37),
}  # fmt: skip
_IMPORTED = ("numpy", "pyarrow", "torch", "tensorflow")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


@dataclass(frozen=True)
class Place:
    """Where to look.

    Args:
        shared_memory: The folder of shared memory.
        temporary: The folder of temporary files.
        home: The user's, where runs are stored by default.
        proc: Where the kernel tells about processes.
        cgroups: Where it tells about control groups.
        environ: Environment variables.
        folder: The program's folder, whose modules come before installed ones.
    """

    shared_memory: str = "/dev/shm"
    temporary: str = field(default_factory=tempfile.gettempdir)
    home: str = field(default_factory=lambda: os.path.expanduser("~"))
    proc: str = "/proc"
    cgroups: str = "/sys/fs/cgroup"
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    folder: str = field(default_factory=os.getcwd)


class Finding(NamedTuple):
    """What is wrong, and what to do about it."""

    subject: str
    fault: str
    remedy: str


Check = Callable[[Place], Iterator[Finding]]


def doctor_command(click: ModuleType) -> object:
    """Return the command."""
    return click.Command(
        "doctor",
        help="Find what about this machine will slow a program down or stop it.",
        callback=_run,
        params=[json_option(click)],
    )


def _run(as_json: bool) -> int:
    findings = examine(Place())
    if as_json:
        show_rows([finding._asdict() for finding in findings], as_json)
    else:
        for finding in findings:
            print(f"{finding.subject}: {finding.fault}\n    {finding.remedy}")
        print(f"{len(CHECKS)} checks, {len(findings)} found something")
    return 1 if findings else 0


def examine(place: Place) -> list[Finding]:
    """Return what all checks find at a place."""
    return [finding for check in CHECKS for finding in check(place)]


# -- memory and disks -----------------------------------------------------------------------------


def check_shared_memory(place: Place) -> Iterator[Finding]:
    """Look for shared memory that is absent, small, full or closed to this user."""
    name = f"shared memory ({place.shared_memory})"
    if not os.path.isdir(place.shared_memory):
        yield Finding(name, "there is none", "mount a tmpfs there, as Docker does by default")
        return
    if not os.access(place.shared_memory, os.W_OK | os.X_OK):
        yield Finding(name, "this user may not write to it", f"chmod 1777 {place.shared_memory}")
        return
    system = os.statvfs(place.shared_memory)
    total, free = system.f_blocks * system.f_frsize, system.f_bavail * system.f_frsize
    if total < _LEAST_SHARED_MEMORY_BYTES:
        yield Finding(
            name,
            f"it has {total // _MB} MB; larger values go to disk",
            "docker run --shm-size=4g …, or mount -o remount,size=4g /dev/shm",
        )
    elif free < total / 10:
        yield Finding(
            name,
            f"{free // _MB} of {total // _MB} MB are free",
            f"see who uses it (du -sh {place.shared_memory}/*), and remove what nobody owns",
        )


def check_memory(place: Place) -> Iterator[Finding]:
    """Look for memory that is nearly used up, by the machine or the container's own limit."""
    use = machine.MemoryGauge(place.proc, place.cgroups).read()
    if use is not None and use.total - use.used < _LEAST_FREE_MEMORY_BYTES:
        yield Finding(
            "memory",
            f"{(use.total - use.used) // _MB} of {use.total // _MB} MB are free",
            "end other programs, or give the container more (docker run --memory=…)",
        )


def check_container_memory(place: Place) -> Iterator[Finding]:
    """Look for a container that may use little of the machine's memory."""
    limit = machine.MemoryGauge(place.proc, place.cgroups).total
    if limit < 2 * _GB:
        yield Finding(
            "memory",
            f"this program may use {limit // _MB} MB in all",
            "give the container more (docker run --memory=8g), or use few workers: num_cpus=…",
        )


def check_disks(place: Place) -> Iterator[Finding]:
    """Look for folders that are full, or that this user may not write to."""
    for folder, what in ((place.temporary, "temporary files"), (place.home, "results of runs")):
        name = f"{what} ({folder})"
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
            way = "TMPDIR" if folder == place.temporary else "storage_path="
            yield Finding(name, "this user may not write there", f"name another folder by {way}")
        elif (free := shutil.disk_usage(folder).free) < _LEAST_FREE_DISK_BYTES:
            yield Finding(name, f"{free // _MB} MB are free", "remove files, or name another disk")


def check_temporary_folder(place: Place) -> Iterator[Finding]:
    """Look for a temporary folder that is unsafe, cannot run programs, or has too long a name."""
    name = f"temporary files ({place.temporary})"
    if len(os.path.realpath(place.temporary)) > _LONGEST_SOCKET_FOLDER:
        yield Finding(
            name,
            f"the path has {len(place.temporary)} characters, too many for sockets below it",
            f"set TMPDIR to a folder of at most {_LONGEST_SOCKET_FOLDER} characters",
        )
    if not os.path.isdir(place.temporary):
        return
    mode = os.stat(place.temporary).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        yield Finding(
            name,
            "every user may remove the files of others there",
            f"chmod +t {place.temporary}",
        )
    if os.statvfs(place.temporary).f_flag & os.ST_NOEXEC:
        yield Finding(
            name,
            "it is mounted noexec: compiled extensions (torch.compile, runtime_env) cannot run",
            "set TMPDIR to another folder, or remount it with exec",
        )


# -- limits ---------------------------------------------------------------------------------------


def check_open_files(place: Place) -> Iterator[Finding]:
    """Look for a low limit of open files."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < _LEAST_OPEN_FILES:
        yield Finding(
            "open files",
            f"{hard} at most; a session needs about 10 for each worker",
            "ulimit -Hn 65536 (as root), or nofile in /etc/security/limits.conf",
        )


def check_processes(place: Place) -> Iterator[Finding]:
    """Look for a low limit of processes and threads, of the user or of the container."""
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if os.geteuid() != 0 and soft != resource.RLIM_INFINITY and soft < _LEAST_PROCESSES:
        yield Finding(
            "processes",
            f"{soft} for this user, threads included",
            "ulimit -u 4096, or nproc in /etc/security/limits.conf",
        )
    most = _first_number(f"{place.cgroups}/pids.max")
    if most is not None and most < _LEAST_PROCESSES:
        yield Finding("processes", f"{most} in this container", "docker run --pids-limit=4096")


def check_address_space(place: Place) -> Iterator[Finding]:
    """Look for a limit of address space, which shared memory and torch use freely."""
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY and soft < machine.memory():
        yield Finding(
            "address space",
            f"{soft // _MB} MB; mapping a value or importing torch may fail",
            "ulimit -v unlimited; memory= limits what a task really uses",
        )


def check_cpus(place: Place) -> Iterator[Finding]:
    """Look for a container that may use fewer CPUs than the machine shows."""
    quota = _cpu_quota(place.cgroups)
    if quota is not None and quota < len(os.sched_getaffinity(0)) / 2:
        yield Finding(
            "CPUs",
            f"the container may use {quota:g} of {len(os.sched_getaffinity(0))}",
            f"skate.init(num_cpus={max(1, int(quota))}), and OMP_NUM_THREADS=1 for other programs",
        )


def check_threads(place: Place) -> Iterator[Finding]:
    """Look for variables that make every worker start more threads than there are CPUs."""
    for name in _THREAD_VARIABLES:
        value = place.environ.get(name, "")
        if value.isdigit() and int(value) > len(os.sched_getaffinity(0)):
            yield Finding(
                "threads",
                f"{name}={value}, in each worker, on {len(os.sched_getaffinity(0))} CPUs",
                f"unset {name}: workers get as many threads as CPUs",
            )


# -- surroundings ---------------------------------------------------------------------------------


def check_proxies(place: Place) -> Iterator[Finding]:
    """Look for proxies that would be asked for this machine's own addresses."""
    proxy = next((name for name in _PROXIES if place.environ.get(name)), None)
    spared = place.environ.get("no_proxy") or place.environ.get("NO_PROXY") or ""
    if proxy is not None and not {"localhost", "127.0.0.1", "*"} & set(_words(spared)):
        yield Finding(
            "proxy",
            f"{proxy} is set: requests to a served model on this machine would go there",
            "export no_proxy=localhost,127.0.0.1",
        )


def check_names(place: Place) -> Iterator[Finding]:
    """Look for files of the program that hide installed packages."""
    for name in ("skate", "ray", "torch", "numpy", "pyarrow", "click", "cloudpickle"):
        path = os.path.join(place.folder, f"{name}.py")
        if os.path.exists(path):
            yield Finding("imports", f"{path} hides the package {name}", "rename the file")


def check_proc(place: Place) -> Iterator[Finding]:
    """Look for a /proc that does not tell what the memory guard needs to know."""
    if not os.access(f"{place.proc}/meminfo", os.R_OK):
        yield Finding(
            "/proc",
            "it cannot be read: nobody notices that memory runs out",
            "mount it (docker does), or set memory= for large tasks",
        )


# -- packages -------------------------------------------------------------------------------------


def check_versions(place: Place) -> Iterator[Finding]:
    """Look for packages that are older than skate can use."""
    for name, oldest in _OLDEST.items():
        version = installed_version(name)
        if version is not None and _numbers(version) < oldest:
            wanted = ".".join(map(str, oldest))
            yield Finding(name, f"{version} is too old", f'pip install "{name}>={wanted}"')


def check_imports(place: Place) -> Iterator[Finding]:
    """Look for packages that are installed and cannot be imported."""
    for name in _IMPORTED:
        if installed_version(name) is None:
            continue
        error = _import_error(name, place)
        if error is not None:
            yield Finding(
                name,
                f"it is installed, and `import {name}` fails: {error}",
                f"pip install --force-reinstall {name}, in the version that fits the others",
            )


def installed_version(name: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _import_error(name: str, place: Place) -> str | None:
    """Return the last line of what an import in a process of its own says, if it fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"import {name}"],
            capture_output=True,
            text=True,
            errors="replace",
            env=dict(place.environ),
            timeout=_IMPORT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {_IMPORT_SECONDS:g} s"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


CHECKS: tuple[Check, ...] = (
    check_shared_memory, check_memory, check_container_memory, check_disks,
    check_temporary_folder, check_open_files, check_processes, check_address_space, check_cpus,
    check_threads, check_proxies, check_names, check_proc, check_versions, check_imports,
)  # fmt: skip


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.partition("+")[0].split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _first_number(path: str) -> int | None:
    try:
        with open(path) as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):  # "max": there is no limit
        return None


def _cpu_quota(cgroups: str) -> float | None:
    try:
        with open(f"{cgroups}/cpu.max") as file:
            quota, period = file.read().split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        pass
    quota_us = _first_number(f"{cgroups}/cpu/cpu.cfs_quota_us")
    period_us = _first_number(f"{cgroups}/cpu/cpu.cfs_period_us")
    return quota_us / period_us if quota_us and period_us and quota_us > 0 else None
