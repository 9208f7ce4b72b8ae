"""Which engine `init` starts, and how each of them is made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from skate._core.nearest import nearest_names
from skate._core.optional_imports import ray_is_skate, try_import
from skate.engine.base import Engine

Settings = dict[str, Any]  # of `init`, checked; those that were not given are not there

HERE = ("local", "inline")  # addresses of this machine; what `address_info` says
_ABOUT_WORKERS = (
    "growing", "log_prefix", "log_to_driver", "memory_guard", "preload", "spill_dir",
)  # fmt: skip
_RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set for programs that were handed to a Ray cluster


def make_engine(settings: Settings) -> Engine:
    """Make the engine that `engine` and `address` ask for, or the environment, or the default."""
    address = settings.pop("address", None)
    name = settings.pop("engine", None)
    if address is None and name is None and _RAY_JOB in os.environ:
        return _connect(None, settings)
    address = address or os.environ.get("SKATE_ADDRESS") or None
    name = name or os.environ.get("SKATE_ENGINE") or None
    if address == "auto" and name is None and ray_is_skate():
        address = None  # the cluster that such a program looks for is this machine
    if name is None:
        name = "ray" if address not in (None, *HERE) else address or "local"
    if name not in ENGINES:
        near = nearest_names(str(name), ENGINES, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"engine takes one of {', '.join(ENGINES)}; got {name!r}{hint}")
    if name in HERE and address not in (None, "local", name):
        raise ValueError(f"address={address!r} is for engine='ray'; got engine={name!r}")
    return ENGINES[name](address, settings)


def worker_of_ray() -> Engine | None:
    """Return the engine of a worker of a Ray cluster, if this process is one."""
    raylet = sys.modules.get("ray._raylet")
    if raylet is None or not raylet.__spec__ or raylet.__spec__.origin is None:
        return None  # no Ray, or skate under that name, which is in no file
    from skate.engine.ray import RayEngine, inside_worker

    return RayEngine() if inside_worker() else None


def _start_local(_address: str | None, settings: Settings) -> Engine:
    _check_environment(settings, installs=True)
    from skate.engine import local

    return local.start(**settings)


def _start_inline(_address: str | None, settings: Settings) -> Engine:
    _check_environment(settings, installs=False)
    from skate.engine.inline import InlineEngine

    # These concern worker processes, and there are none.
    for about_workers in _ABOUT_WORKERS:
        settings.pop(about_workers, None)
    return InlineEngine(**settings)


def _check_environment(settings: Settings, installs: bool) -> None:
    if runtime_env := settings.get("runtime_env"):
        from skate._core.runtime_environments import check_possible_here

        check_possible_here(runtime_env, installs=installs)


def _connect(address: str | None, settings: Settings) -> Engine:
    try_import("ray", "ray")
    if ray_is_skate():
        raise ConnectionError(
            f"address={address!r} asks for a Ray cluster, but `import ray` means skate in this "
            "program (skate.compat.ray, `skate run --as-ray`): run it on Ray itself, or write "
            "`import skate` and start it without --as-ray"
        )
    from skate.engine.ray import connect

    for of_cluster in ("log_prefix", "memory_guard"):  # it has its own
        settings.pop(of_cluster, None)
    return connect(address, **settings)


ENGINES: dict[str, Callable[[str | None, Settings], Engine]] = {
    "local": _start_local,
    "inline": _start_inline,
    "ray": _connect,
}
