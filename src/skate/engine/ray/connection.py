"""Joining a Ray cluster: its address, and skate's own way to the workers."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Any

import ray

from skate.engine.ray.addresses import head_address, unreachable
from skate.engine.ray.engine import RayEngine


def inside_worker() -> bool:
    """Return whether this process is a worker of a Ray cluster."""
    return bool(ray._private.worker.global_worker.mode == ray.WORKER_MODE)


def connect(
    address: str | None = None,
    namespace: str | None = None,
    runtime_env: dict[str, object] | None = None,
    log_to_driver: bool = True,
    **machine: object,
) -> RayEngine:
    """Make the engine for the cluster at `address`.

    Without an address: the one this process is connected to already, or that RAY_ADDRESS names,
    or a Ray of its own on this machine, with what `machine` says it has.
    """
    if ray.is_initialized():
        wrong = {"address": address, "namespace": namespace, "runtime_env": runtime_env}
        _refuse("this process is connected to Ray already", **wrong, **machine)
        return RayEngine()
    given: dict[str, Any] = {
        "namespace": namespace,
        "log_to_driver": log_to_driver,
        "logging_level": logging.ERROR,
        "runtime_env": dict(runtime_env) if runtime_env else None,
    }
    if address is None and "RAY_ADDRESS" not in os.environ:
        started = {**given, "include_dashboard": False, **_for_ray(machine)}
        return RayEngine(disconnect=_Keeper(started).end)
    _refuse("the machines of a cluster say themselves what they have", **machine)
    _join(head_address(address), given)
    return RayEngine(disconnect=ray.shutdown)


def _refuse(why: str, **settings: object) -> None:
    if wrong := [f"{name}={value!r}" for name, value in settings.items() if value is not None]:
        raise ValueError(f"init({', '.join(wrong)}) cannot be had: {why}; leave it out")


def _for_ray(machine: dict[str, object]) -> dict[str, object]:
    """Return what a Ray of our own is started with."""
    wrong = {name: machine.pop(name, None) for name in ("preload", "spill_dir")}
    _refuse("it belongs to engine='local'", **wrong)
    if "memory" in machine:
        machine["_memory"] = machine.pop("memory")
    return machine


class _Keeper(threading.Thread):
    """Starts a Ray of our own, and stays: Ray's processes end with the thread that started them,
    which may be any of the program's."""

    def __init__(self, arguments: dict[str, object]) -> None:
        super().__init__(name="skate-ray", daemon=True)
        self._arguments = arguments
        self._running, self._ended = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self.start()
        self._running.wait()
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        try:
            ray.init("local", **self._arguments)
        except BaseException as error:
            self._error = error
            self._ended.set()
        self._running.set()
        self._ended.wait()

    def end(self) -> None:
        ray.shutdown()
        self._ended.set()
        self.join()


# -- joining -------------------------------------------------------------------------------------


def _join(address: str, given: dict[str, Any]) -> None:
    _attach(address, given)
    missing = _missing_packages()
    if missing:
        ray.shutdown()
        env = dict(given["runtime_env"] or {})
        env["py_modules"] = [*env.get("py_modules", ()), *missing]
        _attach(address, {**given, "runtime_env": env})


def _attach(address: str, given: dict[str, object]) -> None:
    try:
        ray.init(address, **given)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise unreachable(address, str(_root(error))) from error


def _root(error: BaseException) -> BaseException:
    """Return the error that began it, such as a missing token."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    return error


# -- skate on the cluster ------------------------------------------------------------------------


def _missing_packages() -> list[str]:
    """Find folders of the packages that the workers need and do not have in our version."""
    import cloudpickle

    import skate

    def versions() -> tuple[object, object]:  # by value: the cluster may not have skate
        import importlib

        found = []
        for name in ("skate", "cloudpickle"):
            try:
                found.append(importlib.import_module(name).__version__)
            except ImportError:
                found.append(None)
        return found[0], found[1]

    theirs = ray.get(ray.remote(num_cpus=0)(versions).remote())
    missing = [] if theirs[0] == skate.__version__ else [skate]
    if theirs[1] is None:
        missing.append(cloudpickle)
    return [str(Path(str(package.__file__)).parent) for package in missing]
