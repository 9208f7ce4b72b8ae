"""`import ray` means skate, from `install()` to `uninstall()`.

    driver       install() ──► a finder on sys.meta_path: ray.x.y is an alias of skate.x.y
                          └──► skate/compat/_path on sys.path and PYTHONPATH; its bin, with the
                               commands `ray`, `serve` and `tune`, on PATH
    workers      get the driver's sys.path; their first `import ray` finds _path/ray, which calls
    subprocesses install() there; likewise whoever inherits PYTHONPATH

Nothing of this happens unless asked for: by `install()`, or by `skate run --as-ray`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from skate._core.optional_imports import AS_RAY, AS_RAY_PROGRAM
from skate.compat._alias import Alias
from skate.compat._finder import RAY_VERSION, Finder
from skate.compat._loggers import put_loggers_back, put_loggers_below_those_of_ray
from skate.compat.parts.inside import Absent

__all__ = ["RAY_VERSION", "install", "is_installed", "uninstall"]

_FOLDER = str(Path(__file__).parent / "_path")
_COMMANDS = str(Path(__file__).parent / "_path" / "bin")
_PYTHON = "SKATE_PYTHON"  # the interpreter of the command `ray`


def install() -> None:
    """Let `import ray` mean skate here, in workers, and in Python processes started from here.

    Raises RuntimeError where Ray itself is in use: imported already, or chosen as the engine.
    """
    if is_installed():
        return
    _check_no_ray()
    sys.meta_path.insert(0, Finder())
    sys.path.insert(0, _FOLDER)
    _put_first("PYTHONPATH", _FOLDER)
    _put_first("PATH", _COMMANDS)
    os.environ[_PYTHON] = sys.executable
    if AS_RAY not in os.environ:
        os.environ[AS_RAY_PROGRAM] = str(os.getpid())
    os.environ[AS_RAY] = "1"
    put_loggers_below_those_of_ray()


def uninstall() -> None:
    """Undo `install()`: the next `import ray` finds Ray, if it is there."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Finder)]
    sys.path[:] = [folder for folder in sys.path if folder != _FOLDER]
    for name, module in [*sys.modules.items()]:
        if isinstance(module, (Alias, Absent)):
            del sys.modules[name]
    os.environ.pop(AS_RAY, None)
    os.environ.pop(AS_RAY_PROGRAM, None)
    os.environ.pop(_PYTHON, None)
    put_loggers_back()
    _take_out("PYTHONPATH", _FOLDER)
    _take_out("PATH", _COMMANDS)


def _put_first(variable: str, folder: str) -> None:
    inherited = os.environ.get(variable, "").split(os.pathsep)
    rest = [one for one in inherited if one and one != folder]
    os.environ[variable] = os.pathsep.join([folder, *rest])


def _take_out(variable: str, folder: str) -> None:
    rest = [one for one in os.environ.get(variable, "").split(os.pathsep) if one != folder]
    os.environ[variable] = os.pathsep.join(rest)
    if not os.environ[variable]:
        del os.environ[variable]


def is_installed() -> bool:
    """Return whether `import ray` means skate in this process."""
    return any(isinstance(finder, Finder) for finder in sys.meta_path)


def _check_no_ray() -> None:
    ray = sys.modules.get("ray")
    if ray is not None and not isinstance(ray, Alias):
        where = getattr(ray, "__file__", None) or "unknown place"
        raise RuntimeError(
            f"Ray itself is imported already (from {where}), and one process cannot hold both: "
            "call skate.compat.ray.install() before anything imports ray, or start the program "
            "with `skate run --as-ray`"
        )
    if reason := _ray_engine():
        raise RuntimeError(
            f"{reason} chooses the ray engine, which needs Ray itself under the name `ray`: "
            "run on this machine (engine 'local' or 'inline'), or write `import skate` instead"
        )


def _ray_engine() -> str | None:
    """Return what chooses the ray engine, if anything does."""
    from skate.engine import installed_engine

    engine = installed_engine()
    if engine is not None:
        return "init()" if engine.name == "ray" else None
    if os.environ.get("SKATE_ENGINE") == "ray":
        return "SKATE_ENGINE=ray"
    address = os.environ.get("SKATE_ADDRESS")
    return f"SKATE_ADDRESS={address}" if address not in (None, "", "local") else None
