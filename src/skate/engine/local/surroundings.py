"""Settling a forked process into its place: variables, directory, threads, output."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from skate._core.accelerators import hidden_variables, variables_for
from skate._core.variable_references import expand_variables
from skate.engine.local import open_files

# One thread per CPU that the work has asked for, unless the user has said otherwise: several
# workers that each use all cores are slower than one.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS",
    "RAYON_NUM_THREADS",  # of what is written in Rust: tokenizers
)  # fmt: skip
# Here TensorFlow's operations wait for each other: a cluster of its workers hangs with one thread.
_WAITING_THREAD_VARIABLE = "TF_NUM_INTEROP_THREADS"
# Whether Arrow's memory is of huge pages. The system clears these as a whole when they are first
# touched: of the first tasks of a worker, which uses a little of many, that was half of the time.
_HUGE_PAGES_VARIABLE = "MIMALLOC_ALLOW_THP"


_OOM_SCORE = "1000"  # the highest: taken first


own_path: list[str] | None = None  # of an interpreter with packages of its own


def set_before_imports() -> None:
    """Set what libraries read from the environment when they are loaded, unless the user has."""
    os.environ.setdefault(_HUGE_PAGES_VARIABLE, "0")


def settle_in(settings: Mapping[str, Any], stdout: int, stderr: int) -> None:
    """Make this process what the driver (and the runtime environment) say it should be."""
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for fd in (stdout, stderr):
        os.close(fd)
    open_files.allow(settings["open_files"])
    _go_first_when_memory_ends()
    _set_variables(settings)
    _set_threads(settings.get("threads", 1))
    _set_paths(settings)
    _reseed()


def _go_first_when_memory_ends() -> None:
    """Have the system take workers before the driver, which holds what all of them need."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(_OOM_SCORE)
    except OSError:  # a system without it, or that forbids it
        pass


def _set_variables(settings: Mapping[str, Any]) -> None:
    environ = settings["environ"]
    for name in set(os.environ) - set(environ):
        del os.environ[name]
    os.environ.update(environ)
    if "prefix" in settings:  # as the environment's `activate` does
        os.environ["VIRTUAL_ENV"] = settings["prefix"]
        programs = os.path.join(settings["prefix"], "bin")
        os.environ["PATH"] = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
    threads = settings.get("threads", 1)
    for name in _THREAD_VARIABLES:
        os.environ.setdefault(name, str(threads))
    os.environ.setdefault(_WAITING_THREAD_VARIABLE, str(threads + 1))
    set_before_imports()
    variables = expand_variables(dict(settings.get("env_vars", ())), os.environ)
    os.environ.update(variables)
    if settings["has_gpus"]:
        hidden = hidden_variables(("GPU",), os.environ)
        os.environ.update({name: text for name, text in hidden.items() if name not in variables})


def _set_threads(count: int) -> None:
    """Set the threads of libraries that were loaded before the fork, and have read the variables
    already."""
    outermost = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    count = int(outermost) if outermost.isdigit() else count
    for module, setter in (("torch", "set_num_threads"), ("pyarrow", "set_cpu_count")):
        set_count = getattr(sys.modules.get(module), setter, None)
        if set_count is not None:
            set_count(count)


def _set_paths(settings: Mapping[str, Any]) -> None:
    around = settings.get("path_around")
    if around is None:
        sys.path[:] = settings["sys_path"]
    else:  # the interpreter's own packages go before the driver's
        before, after = around
        sys.path[:] = dict.fromkeys([*before, *(own_path or ()), *after])
    sys.path[:0] = settings.get("py_modules", ())
    directory = settings.get("working_dir")
    if directory:
        sys.path.insert(0, directory)
    try:
        os.chdir(directory or settings["cwd"])
    except OSError:  # removed since; the work itself will fail if it needs it
        pass


def _reseed() -> None:
    """Reseed random numbers, of which forks of one process would otherwise draw the same."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(int.from_bytes(os.urandom(8), "big") >> 1)


def show_accelerators(given: Mapping[str, tuple[int | str, ...]]) -> None:
    """Say which accelerators this process may use, where libraries look for that."""
    for name, text in variables_for(given, os.environ).items():
        if text is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = text


def end_process_group() -> None:
    """End, with all that this process has started: the driver is gone."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
