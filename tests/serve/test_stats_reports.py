"""Measurements of the user's code that take too long: they hold up nothing but themselves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from skate import serve
from skate.serve._replica.stats_reports import StatsPlan, StatsReports
from skate.serve._replica.threads import UserCodeThreads
from tests.support import PATIENCE, Flag, eventually

SOON = StatsPlan(0.001, 0.01)


def run_reports(measure: Any, until: Callable[[], Coroutine[Any, Any, None]]) -> list[bytes]:
    told: list[bytes] = []

    async def run() -> None:
        reports = StatsReports("record_routing_stats", measure, told.append, SOON)
        await asyncio.wait_for(until(), PATIENCE)
        reports.end()

    asyncio.run(run())
    return told


def test_a_function_that_hangs_is_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    go_on, calls = threading.Event(), 0

    def hang() -> dict[str, int]:
        nonlocal calls
        calls += 1
        go_on.wait(PATIENCE)
        return {}

    async def measure(threads: UserCodeThreads) -> Any:
        return await threads.run(hang)

    async def until_it_was_late_often() -> None:
        while caplog.text.count("no answer within 0.01 s") < 5:
            await asyncio.sleep(0.001)
        assert calls == 1
        go_on.set()
        while calls < 3:
            await asyncio.sleep(0.001)

    assert run_reports(measure, until_it_was_late_often)


def test_a_coroutine_that_hangs_is_cancelled_and_called_again() -> None:
    calls = 0

    async def measure(threads: UserCodeThreads) -> Any:
        nonlocal calls
        calls += 1
        if calls < 3:
            await asyncio.Event().wait()
        return {}

    async def until_it_was_called_often() -> None:
        while calls < 5:
            await asyncio.sleep(0.001)

    assert run_reports(measure, until_it_was_called_often)


def test_requests_have_their_threads_while_a_measurement_hangs(
    run_locally: Callable[..., Any], flag: Callable[[str], Flag]
) -> None:
    begun = flag("begun")
    config = serve.config.RequestRouterConfig(
        request_routing_stats_period_s=0.01, request_routing_stats_timeout_s=0.01
    )

    @serve.deployment(max_ongoing_requests=2, request_router_config=config)
    class Hangs:
        def record_routing_stats(self) -> dict[str, int]:
            begun.set()
            threading.Event().wait()
            return {}

        def __call__(self) -> int:
            return threading.active_count()

    handle = run_locally(Hangs.bind())
    eventually(begun.is_set)
    counts = [handle.remote().result(timeout_s=PATIENCE) for _ in range(100)]
    assert max(counts) - min(counts) <= 2
