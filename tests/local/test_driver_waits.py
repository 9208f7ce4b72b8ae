"""Waits that last are explained: a line, once, and in errors."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import threading
from typing import Any

import pytest

import skate
from skate._core import notices, places
from skate._core.plain_errors import failing_plainly
from skate.engine import current_engine
from skate.engine.local.driver_waits import _user_place
from skate.engine.sessions import own_session
from skate.exceptions import GetTimeoutError
from tests.support import Flag, eventually

Captured = pytest.CaptureFixture[str]


@skate.remote
def wait_for(flag: Flag) -> str:
    flag.wait()
    return "came"


@skate.remote
def stream(flag: Flag) -> Any:
    flag.wait()
    yield 1


@skate.remote(num_cpus=2)
class Greedy:
    def hold(self) -> None: ...


@pytest.fixture
def explaining(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session in which waits are explained soon."""
    monkeypatch.setenv("SKATE_EXPLAIN_WAITS_AFTER", "0.05")
    monkeypatch.setattr(logging.getLogger("skate"), "level", logging.NOTSET)
    skate.init(num_cpus=2)
    yield
    skate.shutdown()


def raise_when_said(monkeypatch: pytest.MonkeyPatch, flag: Flag) -> list[str]:
    """The lines that are said; the first one raises the flag."""
    lines: list[str] = []

    def say(text: str) -> None:
        lines.append(text)
        flag.set()

    monkeypatch.setattr(notices, "say", say)
    return lines


def by_get(flag: Flag) -> None:
    assert skate.get(wait_for.remote(flag)) == "came"


def by_wait(flag: Flag) -> None:
    ready, _ = skate.wait([wait_for.remote(flag)])
    assert ready


def by_short_turns(flag: Flag) -> None:
    ref = wait_for.remote(flag)
    while not skate.wait([ref], timeout=0.01)[0]:
        pass


def by_a_generator(flag: Flag) -> None:
    assert skate.get(next(stream.remote(flag))) == 1


def by_as_completed(flag: Flag) -> None:
    assert list(skate.util.as_completed([wait_for.remote(flag)])) == ["came"]


def by_await(flag: Flag) -> None:
    async def main() -> Any:
        return await wait_for.remote(flag)

    assert asyncio.run(main()) == "came"


def by_gather(flag: Flag) -> None:
    async def main() -> Any:
        return await asyncio.gather(wait_for.remote(flag), asyncio.sleep(0))

    assert asyncio.run(main())[0] == "came"


@pytest.mark.parametrize(
    ("wait", "verb"),
    [
        (by_get, r"get\(\)"), (by_wait, r"wait\(\)"), (by_short_turns, r"wait\(\)"),
        (by_a_generator, r"__next__\(\)"), (by_as_completed, r"wait\(\)"),
        (by_await, "await"), (by_gather, "await"),
    ],
)  # fmt: skip
def test_one_line(
    explaining: None, flag: Any, monkeypatch: pytest.MonkeyPatch, wait: Any, verb: str
) -> None:
    raised = flag("said")
    lines = raise_when_said(monkeypatch, raised)
    wait(raised)
    name = "stream" if wait is by_a_generator else "wait_for"
    assert re.fullmatch(
        rf"{verb} \(.*test_driver_waits.py:\d+\) has waited \d+ s: {name} (runs in|waits) .*",
        lines[0],
    )


def test_a_function_that_fails_plainly_is_called_by_its_name() -> None:
    written: dict[str, Any] = {}
    exec(compile("def fit(wait): return wait()", f"{places.PACKAGE}training.py", "exec"), written)
    assert (failing_plainly(written["fit"])(_user_place) or "").startswith("fit() (")


def test_awaits_leave_nothing(explaining: None) -> None:
    @skate.remote
    def quick() -> int:
        return 1

    async def main() -> None:
        assert await asyncio.gather(*(quick.remote() for _ in range(20))) == [1] * 20
        cancelled = asyncio.ensure_future(_awaited(quick.remote()))
        cancelled.cancel()
        await asyncio.sleep(0)

    async def _awaited(ref: Any) -> Any:
        return await ref

    asyncio.run(main())
    awaits: Any = current_engine().awaits
    eventually(lambda: not awaits._pending)
    gc.collect()
    assert not awaits._watched  # loops that are closed are not kept


def test_the_same_is_said_once(
    explaining: None, flag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = flag("never")
    lines = raise_when_said(monkeypatch, flag("said"))
    ref = wait_for.remote(never)
    for _ in range(3):
        with pytest.raises(GetTimeoutError):
            skate.get(ref, timeout=0.3)
    assert len(lines) == len({line.split(" s: ")[1] for line in lines})
    never.set()
    assert skate.get(ref) == "came"


def test_errors_have_the_facts(explaining: None) -> None:
    holder = Greedy.options(name="greedy").remote()
    skate.get(holder.hold.remote())
    late = Greedy.remote()
    with pytest.raises(GetTimeoutError, match=r"actor Greedy 'greedy'.*has held CPU: 2") as caught:
        skate.get(late.hold.remote(), timeout=0.01)
    (row,) = caught.value.waits
    assert row["cause"] == "starting"
    assert row["waits_for"] == ["Greedy.__init__"]
    with pytest.raises(GetTimeoutError, match=r"2 of 2 objects.*and 1 more") as both:
        skate.get([late.hold.remote(), late.hold.remote()], timeout=0)
    assert len(both.value.waits) == 2


def test_errors_in_workers_have_them_too(explaining: None) -> None:
    @skate.remote
    def impatient(refs: list[Any]) -> list[dict[str, Any]]:
        with pytest.raises(GetTimeoutError) as caught:
            skate.get(refs, timeout=0.01)
        return caught.value.waits

    holder = Greedy.remote()
    skate.get(holder.hold.remote())
    late = Greedy.remote()
    (row,) = skate.get(impatient.options(num_cpus=0).remote([late.hold.remote()]))
    assert "Greedy" in row["text"]


@pytest.mark.parametrize("wait", [by_get, by_a_generator, by_await])
def test_all_waits_of_a_session(explaining: None, flag: Any, wait: Any) -> None:
    raised = flag("raised")
    thread = threading.Thread(target=wait, args=(raised,))
    thread.start()
    name = "stream" if wait is by_a_generator else "wait_for"
    engine: Any = skate.engine.current_engine()
    eventually(lambda: [row["name"] for row in engine.state("waits")] == [name])
    own = own_session()
    eventually(lambda: [one["name"] for one in own.stacks([own.pid])[0]["waits_for"]] == [name])
    raised.set()
    thread.join()


def test_a_wait_that_is_to_last(
    explaining: None, flag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = flag("raised")
    lines = raise_when_said(monkeypatch, raised)
    ref = wait_for.remote(raised)
    with notices.patient():
        skate.wait([ref], timeout=0.2)
    assert lines == []
    raised.set()
    assert skate.get(ref) == "came"


def test_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKATE_EXPLAIN_WAITS_AFTER", "soon")
    with pytest.raises(ValueError, match="takes a number of seconds, 0 for never; got 'soon'"):
        skate.init()
