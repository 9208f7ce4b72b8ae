"""`ray._private.test_utils`: the helpers that Ray's tests, and those of its users, wait with."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import skate
from skate.util import placement_group_table

_NOT_MET = "the condition was not met within {} seconds"


def wait_for_condition(
    condition_predictor: Callable[..., Any],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    raise_exceptions: bool = False,
    **kwargs: Any,
) -> None:
    """Call the function until it returns something true; RuntimeError after `timeout` seconds."""
    last: Exception | None = None
    end = time.monotonic() + timeout
    while time.monotonic() <= end:
        try:
            if condition_predictor(**kwargs):
                return
            last = None
        except Exception as error:
            if raise_exceptions:
                raise
            last = error
        time.sleep(retry_interval_ms / 1000)
    raise RuntimeError(_NOT_MET.format(timeout)) from last


async def async_wait_for_condition(
    condition_predictor: Callable[..., Any],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    **kwargs: Any,
) -> None:
    """The same in an event loop; the function may be async."""
    last: Exception | None = None
    end = time.monotonic() + timeout
    while time.monotonic() <= end:
        try:
            result = condition_predictor(**kwargs)
            if await result if inspect.isawaitable(result) else result:
                return
            last = None
        except Exception as error:
            last = error
        await asyncio.sleep(retry_interval_ms / 1000)
    raise RuntimeError(_NOT_MET.format(timeout)) from last


def wait_for_pid_to_exit(pid: int, timeout: float = 20) -> None:
    """Return when the process is gone."""
    wait_for_condition(lambda: not _runs(pid), timeout)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@skate.remote(num_cpus=0)
class SignalActor:
    """Lets others wait until it is told to let them go."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._waiting = 0

    async def send(self, clear: bool = False) -> None:
        self._event.set()
        if clear:
            self._event.clear()

    async def wait(self, should_wait: bool = True) -> None:
        if should_wait:
            self._waiting += 1
            await self._event.wait()
            self._waiting -= 1

    async def cur_num_waiters(self) -> int:
        return self._waiting


@skate.remote(num_cpus=0)
class Semaphore:
    """asyncio's semaphore, for processes."""

    def __init__(self, value: int = 1) -> None:
        self._semaphore = asyncio.Semaphore(value)

    async def acquire(self) -> None:
        await self._semaphore.acquire()

    async def release(self) -> None:
        self._semaphore.release()

    async def locked(self) -> bool:
        return self._semaphore.locked()


@skate.remote(num_cpus=0)
class Collector:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self._items: list[Any] = []

    def add(self, item: Any) -> None:
        self._items.append(item)

    def get(self) -> list[Any]:
        return self._items


def run_string_as_driver(
    driver_script: str, env: dict[str, str] | None = None, encode: str = "utf-8"
) -> str:
    """Run a program in an interpreter of its own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-"],
        input=driver_script.encode(encode),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    printed = done.stdout.decode(encode)
    if done.returncode:
        print(printed, file=sys.stderr)
        raise subprocess.CalledProcessError(done.returncode, done.args, printed)
    return printed


def run_string_as_driver_nonblocking(
    driver_script: str, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """The same without waiting for it."""
    command = [sys.executable, "-c", driver_script]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def is_placement_group_removed(pg: Any) -> bool:
    return bool(placement_group_table(pg).get("state", "REMOVED") == "REMOVED")


def dicts_equal(dict1: dict[Any, float], dict2: dict[Any, float], abs_tol: float = 1e-4) -> bool:
    """Whether two dictionaries of numbers are the same, nearly."""
    same_keys = dict1.keys() == dict2.keys()
    return same_keys and all(abs(dict1[key] - dict2[key]) < abs_tol for key in dict1)


def client_test_enabled() -> bool:
    return False


def __getattr__(name: str) -> Callable[..., Any]:
    """Any other helper: importable, so that the tests of a file that do without it run."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"skate has no {name!r} among its helpers for tests")

    return refuse
