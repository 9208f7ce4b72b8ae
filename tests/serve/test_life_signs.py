"""Replicas without `check_health`: whether their processes go on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skate import serve
from skate.exceptions import ActorDiedError
from tests.support import eventually


@pytest.fixture
def stopped() -> Iterator[Callable[[int], None]]:
    """Stop processes, as a debugger does."""
    pids: list[int] = []

    def stop(pid: int) -> None:
        pids.append(pid)
        os.kill(pid, signal.SIGSTOP)

    yield stop
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@serve.deployment(
    health_check_period_s=0.1, health_check_timeout_s=1, graceful_shutdown_timeout_s=0
)
class Model:
    async def __call__(self) -> int:
        return os.getpid()

    async def wait(self) -> None:
        await asyncio.Event().wait()

    async def block(self) -> int:
        time.sleep(5)
        return os.getpid()


def test_a_replica_whose_process_stands_still_is_replaced(
    run_locally: Callable[..., Any], stopped: Callable[[int], None]
) -> None:
    handle = run_locally(Model.bind(), route_prefix=None)
    pid = handle.remote().result()
    waiting = handle.wait.remote()
    stopped(pid)
    with pytest.raises(ActorDiedError):
        waiting.result(timeout_s=60)
    assert handle.remote().result(timeout_s=60) != pid

    def is_healthy() -> bool:
        deployment = serve.status().applications["default"].deployments["Model"]
        return deployment.replica_states == {"RUNNING": 1}

    eventually(is_healthy)


def test_a_replica_whose_code_blocks_the_event_loop_is_left_alone(
    run_locally: Callable[..., Any],
) -> None:
    handle = run_locally(Model.bind(), route_prefix=None)
    pid = handle.remote().result()
    assert handle.block.remote().result() == pid
    assert handle.remote().result() == pid
