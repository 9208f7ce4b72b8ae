"""`ray._private.test_utils`: the helpers that Ray's tests, and those of its users, wait with."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import skate
from ray_test_helpers import processes, subscriptions
from skate.compat.parts.core.network_utils import find_free_port as find_free_port
from skate.util import placement_group_table, remove_placement_group
from skate.util.state import list_actors

run_string_as_driver = processes.run_string_as_driver
run_string_as_driver_nonblocking = processes.run_string_as_driver_nonblocking
run_string_as_driver_stdout_stderr = processes.run_string_as_driver_stdout_stderr
wait_for_children_of_pid = processes.wait_for_children_of_pid
wait_for_children_of_pid_to_exit = processes.wait_for_children_of_pid_to_exit
wait_for_pid_to_exit = processes.wait_for_pid_to_exit
_pid_alive = processes._pid_alive
check_call_ray = processes.check_call_ray
check_call_subprocess = processes.check_call_subprocess
get_current_unused_port = find_free_port
init_error_pubsub = subscriptions.init_error_pubsub
init_log_pubsub = subscriptions.init_log_pubsub
get_error_message = subscriptions.get_error_message
get_log_batch = subscriptions.get_log_batch
get_log_data = subscriptions.get_log_data
get_log_message = subscriptions.get_log_message
get_log_sources = subscriptions.get_log_sources

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
    """Wait as `wait_for_condition` does, in an event loop; the function may be async."""
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


def wait_for_assertion(
    assertion_predictor: Callable[..., Any],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    raise_exceptions: bool = False,
    **kwargs: Any,
) -> None:
    """Call the function until it raises no AssertionError; after `timeout` seconds, raise it."""

    def holds() -> bool:
        try:
            assertion_predictor(**kwargs)
        except AssertionError:
            return False
        return True

    try:
        wait_for_condition(holds, timeout, retry_interval_ms, raise_exceptions)
    except RuntimeError:
        assertion_predictor(**kwargs)


def wait_until_succeeded_without_exception(
    func: Callable[..., Any],
    exceptions: tuple[type[BaseException], ...],
    *args: Any,
    timeout_ms: float = 1000,
    retry_interval_ms: float = 100,
    raise_last_ex: bool = False,
) -> bool:
    """Call the function until it raises none of these; whether that happened in time."""
    end = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            func(*args)
        except exceptions as error:
            if time.monotonic() <= end:
                time.sleep(retry_interval_ms / 1000)
                continue
            if raise_last_ex:
                raise RuntimeError(_NOT_MET.format(timeout_ms / 1000)) from error
            return False
        return True


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


@skate.remote
def _returned(value: Any) -> Any:
    return value


def put_object(obj: Any, use_ray_put: bool) -> Any:
    """Return a reference to the value: put here, or returned by a task."""
    return skate.put(obj) if use_ray_put else _returned.remote(obj)


def is_placement_group_removed(pg: Any) -> bool:
    return bool(placement_group_table(pg).get("state", "REMOVED") == "REMOVED")


def dicts_equal(dict1: dict[Any, float], dict2: dict[Any, float], abs_tol: float = 1e-4) -> bool:
    """Return whether two dictionaries of numbers are the same, nearly."""
    same_keys = dict1.keys() == dict2.keys()
    return same_keys and all(abs(dict1[key] - dict2[key]) < abs_tol for key in dict1)


def generate_system_config_map(**settings: Any) -> dict[str, Any]:
    """Return arguments of init that set what tunes Ray's services."""
    return {"_system_config": settings}


def same_elements(elems_a: Any, elems_b: Any) -> bool:
    """Return whether both hold the same things, in any order; they need not be hashable."""
    rest = list(elems_b)
    for one in elems_a:
        if one not in rest:
            return False
        rest.remove(one)
    return not rest


def get_other_nodes(cluster: Any, exclude_head: bool = False) -> list[Any]:
    """Return all nodes but that of the driver, which is the first."""
    return list(cluster.list_all_nodes()[1:])


def get_non_head_nodes(cluster: Any) -> list[Any]:
    """Return all nodes but the first."""
    return list(cluster.list_all_nodes()[1:])


def get_actor_node_id(actor_handle: Any) -> str:
    call = actor_handle.__ray_call__
    found: str = skate.get(call.remote(lambda _: skate.get_runtime_context().get_node_id()))
    return found


def recursive_fnmatch(dirpath: str, pattern: str) -> list[str]:
    """Return the files below a folder whose names match."""
    return [str(path) for path in Path(dirpath).rglob(pattern) if path.is_file()]


def convert_actor_state(state: Any) -> Any:
    """Return the state, which has its name here already."""
    return state


def wait_for_num_actors(num_actors: int, state: str | None = None, timeout: float = 10) -> None:
    def enough() -> bool:
        rows = list_actors(limit=num_actors)
        fitting = [row for row in rows if state is None or row.state == state]
        return len(fitting) >= num_actors

    wait_for_condition(enough, timeout)


def kill_actor_and_wait_for_failure(
    actor: Any, timeout: float = 10, retry_interval_ms: float = 100
) -> None:
    skate.kill(actor)
    wait_for_condition(
        lambda: list_actors(filters=[("actor_id", "=", actor._actor_id.hex())])[0].state == "DEAD",
        timeout,
        retry_interval_ms,
    )


def placement_group_assert_no_leak(pgs_created: list[Any]) -> None:
    """Remove the groups, which give back all that they had."""
    for group in pgs_created:
        remove_placement_group(group)
    wait_for_condition(no_resource_leaks_excluding_node_resources)


def no_resource_leaks_excluding_node_resources() -> bool:
    """Return whether all that there is is free."""
    free = skate.available_resources()
    return all(
        free.get(name, 0) == amount
        for name, amount in skate.cluster_resources().items()
        if name != "object_store_memory"
    )


@contextmanager
def chdir(directory: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def object_memory_usage() -> float:
    """Return how many bytes of the store are taken."""
    total, free = skate.cluster_resources(), skate.available_resources()
    name = "object_store_memory"
    return total.get(name, 0.0) - free.get(name, 0.0)


def format_web_url(url: str) -> str:
    """Return an address that a client takes, for one that says `localhost` or no scheme."""
    numbered = url.replace("localhost", "127.0.0.1")
    return numbered if numbered.startswith("http://") else f"http://{numbered}"


class FakeTimer:
    """A clock that goes on when it is told to."""

    def __init__(self, start_time: float | None = None) -> None:
        self.reset(start_time)

    def reset(self, start_time: float | None = None) -> None:
        self._now = time.time() if start_time is None else start_time

    def time(self) -> float:
        return self._now

    def advance(self, by: float) -> None:
        self._now += by

    def realistic_sleep(self, amt: float) -> None:
        self._now += amt + 0.001


def _no() -> bool:
    """Deny services and variants of Ray that are tested elsewhere."""
    return False


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Return at once: there is no such service to wait for."""


wait_for_aggregator_agent = wait_for_aggregator_agent_if_enabled = _nothing
wait_for_dashboard_agent_available = _nothing
client_test_enabled = external_redis_test_enabled = enable_external_redis = _no
persistent_gcs_test_enabled = rocksdb_gcs_test_enabled = sandbox_test_enabled = _no


def job_hook(entrypoint: tuple[str, ...], **given: Any) -> None:
    """Be the function that tests of RAY_JOB_SUBMIT_HOOK name."""
    print(f"hook intercepted: {' '.join(entrypoint)}")
    sys.exit(0)


def wandb_setup_api_key_hook() -> str:
    """Give a key to tests of WANDB_SETUP_API_KEY_HOOK, which name this function."""
    return "abcd"


def __getattr__(name: str) -> Callable[..., Any]:
    """Return any other helper: importable, so that the tests of a file that do without it run."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"skate has no {name!r} among its helpers for tests")

    return refuse
