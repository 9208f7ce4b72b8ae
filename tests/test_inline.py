"""What is particular to the inline engine; what all engines share is in contract/."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import traceback
import weakref
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest

import skate
from skate._core.serialization import dumps
from skate.engine import installed_engine
from skate.engine.inline import objects
from skate.engine.inline.objects import Entry, Objects
from skate.engine.inline.streams import InlineStream
from tests.support import PATIENCE

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


def elsewhere() -> str:
    return "real"


@skate.remote
def call_elsewhere() -> str:
    return elsewhere()


class Watched:
    """Weakly referenceable, and remembers its instances."""

    alive: ClassVar[weakref.WeakSet[Watched]] = weakref.WeakSet()

    def __init__(self) -> None:
        Watched.alive.add(self)


def test_tasks_run_at_once_in_this_thread_in_order() -> None:
    seen: list[tuple[int, int]] = []
    note = skate.remote(lambda i: seen.append((i, threading.get_ident())))
    refs = [note.remote(i) for i in range(5)]
    assert seen == [(i, threading.get_ident()) for i in range(5)]
    del refs


def test_mocks_work() -> None:
    with mock.patch(f"{__name__}.elsewhere", return_value="mocked"):
        assert skate.get(call_elsewhere.remote()) == "mocked"
    assert skate.get(call_elsewhere.remote()) == "real"


def test_a_debugger_lands_on_the_users_line() -> None:
    @skate.remote
    def divide(x: int) -> float:
        return 1 / x

    ref = divide.remote(0)
    with pytest.raises(ZeroDivisionError) as caught:
        skate.get(ref)
    last = traceback.extract_tb(caught.tb)[-1]
    assert (last.name, last.line) == ("divide", "return 1 / x")


def test_values_are_copies() -> None:
    original = [1]
    ref = skate.put(original)
    original.append(2)
    assert skate.get(ref) == [1]
    skate.get(ref).append(3)
    assert skate.get(ref) == [1]


def test_values_are_freed_with_their_references() -> None:
    import numpy as np

    refs = [skate.put(np.zeros(10)) for _ in range(10)]
    objects = refs[0]._home
    outer = skate.put({"inner": refs})
    assert len(objects._refs) == 11
    del refs
    assert len(objects._refs) == 11
    del outer
    assert len(objects._refs) == 0


def test_tasks_leave_nothing() -> None:
    identity = skate.remote(lambda x: x)
    objects = skate.put(0)._home
    for _ in range(100):
        skate.get(identity.remote(identity.remote([1])))
    assert len(objects._refs) == 0


def test_failed_tasks_leave_nothing() -> None:
    @skate.remote
    def fail() -> None:
        raise LookupError

    objects = skate.put(0)._home
    for _ in range(100):
        with pytest.raises(LookupError):
            skate.get(fail.remote())
    gc.collect()
    assert len(objects._refs) == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_an_actor_goes_with_its_last_handle(is_async: bool) -> None:
    class Actor(Watched):
        def hello(self) -> str:
            return "hello"

    if is_async:
        Actor.hello = _async_hello  # type: ignore[assignment, method-assign]
    before = set(threading.enumerate())
    handle = skate.remote(Actor).options(num_cpus=1).remote()
    assert skate.get(handle.hello.remote()) == "hello"
    assert len(Watched.alive) == 1
    assert skate.available_resources()["CPU"] == 1
    own_threads = set(threading.enumerate()) - before
    assert len(own_threads) == is_async
    del handle
    for thread in own_threads:
        thread.join(60)
        assert not thread.is_alive()
    gc.collect()
    assert not Watched.alive
    assert skate.available_resources()["CPU"] == 2


async def _async_hello(self: Any) -> str:
    await asyncio.sleep(0)
    return "hello"


def test_async_calls_overlap() -> None:
    @skate.remote
    class Gate:
        def __init__(self) -> None:
            self.opened = asyncio.Event()

        async def wait(self) -> str:
            await self.opened.wait()
            return "through"

        async def open(self) -> None:
            self.opened.set()

    gate = Gate.remote()
    waiting = gate.wait.remote()
    chained = skate.remote(lambda text: text.upper()).remote(waiting)
    assert skate.wait([waiting, chained], num_returns=2, timeout=0) == ([], [waiting, chained])
    gate.open.remote()
    assert skate.get([waiting, chained], timeout=60) == ["through", "THROUGH"]


def test_a_call_that_waits_for_its_argument_can_be_cancelled() -> None:
    @skate.remote
    class Never:
        async def wait(self) -> None:
            await asyncio.Event().wait()

    ran: list[int] = []
    never = Never.remote()
    waiting = never.wait.remote()
    dependent = skate.remote(lambda _: ran.append(1)).remote(waiting)
    skate.cancel(dependent)
    with pytest.raises(skate.exceptions.TaskCancelledError):
        skate.get(dependent, timeout=60)
    skate.cancel(waiting)
    with pytest.raises(skate.exceptions.TaskCancelledError):
        skate.get(waiting, timeout=60)
    assert not ran


def test_an_endless_generator_is_run_as_it_is_consumed() -> None:
    produced: list[int] = []

    @skate.remote
    def count() -> Any:
        number = 0
        while True:
            produced.append(number)
            yield number
            number += 1

    stream = count.remote()
    assert [skate.get(next(stream)) for _ in range(3)] == [0, 1, 2]
    assert produced == [0, 1, 2]
    stream.close()
    assert list(stream) == []


def test_a_later_call_waits_for_the_generator_of_an_earlier_one() -> None:
    @skate.remote
    class Source:
        def __init__(self) -> None:
            self.closed = False

        def read(self) -> Any:
            for _ in range(2):
                yield self.closed

        def close(self) -> None:
            self.closed = True

    source = Source.remote()
    stream = source.read.remote()
    skate.get(source.close.remote())
    assert [skate.get(ref) for ref in stream] == [False, False]


def test_keyboard_interrupt_reaches_the_prompt() -> None:
    @skate.remote
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted.remote()
    assert skate.get(call_elsewhere.remote()) == "real"


@pytest.mark.init(num_gpus=3)
def test_pretended_gpus() -> None:
    @skate.remote
    class Actor:
        def gpus(self) -> tuple[list[int | str], str]:
            return skate.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

    first, second = Actor.options(num_gpus=1).remote(), Actor.options(num_gpus=2).remote()
    assert skate.get(first.gpus.remote()) == ([0], "0")
    assert skate.get(second.gpus.remote()) == ([1, 2], "1,2")
    assert skate.get(skate.remote(lambda: os.environ["CUDA_VISIBLE_DEVICES"]).remote()) == ""
    assert "GPU" not in skate.available_resources()


def test_the_environment_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("value = 5")

    def look() -> tuple[str | None, str, int]:
        import beside  # type: ignore[import-not-found]

        return os.environ.get("SKATE_TEST_VALUE"), os.getcwd(), beside.value

    here = os.getcwd()
    env = {"env_vars": {"SKATE_TEST_VALUE": "1"}, "working_dir": str(tmp_path)}
    ref = skate.remote(look).options(runtime_env=env).remote()
    assert skate.get(ref) == ("1", os.path.realpath(tmp_path), 5)
    assert "SKATE_TEST_VALUE" not in os.environ
    assert os.getcwd() == here


def test_what_was_changed_for_a_folder_that_is_gone_is_put_back(tmp_path: Path) -> None:
    folder, path = tmp_path / "gone", [*sys.path]
    folder.mkdir()
    env = {"working_dir": str(folder), "env_vars": {"SKATE_TEST_LEFT": "1"}}
    task: Any = call_elsewhere.options(runtime_env=env)
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        skate.get(task.remote())
    assert "SKATE_TEST_LEFT" not in os.environ
    assert sys.path == path


def test_whoever_begins_to_wait_while_others_are_called_back_is_called_too() -> None:
    stream = InlineStream(store := Objects(mock.Mock()), store.new())
    called: list[str] = []
    begun: list[threading.Thread] = []

    class Index(int):
        """Has another thread wait for the next item, while this one is compared."""

        def __lt__(self, other: int) -> bool:
            if other and not begun:
                later = threading.Thread(
                    target=stream.when_ready, args=(1, lambda: called.append("later"))
                )
                begun.append(later)
                later.start()
                later.join(0.2)  # it may have to wait until the comparison is over
            return int(self) < other

    stream.when_ready(Index(0), lambda: called.append("first"))
    stream.push("a")
    begun[0].join(PATIENCE)
    stream.push("b")
    assert called == ["first", "later"]


def test_old_references_say_what_happened() -> None:
    ref = skate.put(1)
    skate.shutdown()
    skate.init(engine="inline")
    with pytest.raises(skate.exceptions.StaleReferenceError, match="has been shut down"):
        skate.get(ref)


def test_nothing_waits_for_resources_that_others_hold() -> None:
    holder = skate.remote(num_cpus=2)(type("Holder", (), {}))  # type: ignore[var-annotated]
    holders = [holder.remote(), holder.remote()]
    assert skate.get([handle.__ray_ready__.remote() for handle in holders]) == [True, True]
    assert "CPU" not in skate.available_resources()


def test_waiting_for_many_looks_at_each_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each object that is done wakes up who waits: to look at all of them then would take a
    time that grows with the square of their number."""
    looks = 0

    class Counted(Entry):
        @property
        def done(self) -> bool:
            nonlocal looks
            looks += 1
            return self.is_done

        @done.setter
        def done(self, value: bool) -> None:
            self.is_done = value

    engine: Any = installed_engine()
    monkeypatch.setattr(objects, "Entry", Counted)
    refs = [engine._objects.new() for _ in range(1000)]

    def complete_one_after_the_other(holds: Any, timeout: float | None) -> bool:
        for ref in refs:
            assert not holds()
            engine._objects.store(ref, dumps(1))
        return bool(holds())

    monkeypatch.setattr(engine._objects, "wait_for", complete_one_after_the_other)
    assert sum(skate.get(refs)) == 1000
    assert looks < 10 * 1000


def test_an_error_ends_waiting_for_many_at_once() -> None:
    engine: Any = installed_engine()
    refs = [engine._objects.new() for _ in range(10)]
    error = skate.exceptions.TaskCancelledError()
    threading.Timer(0.01, lambda: engine._objects.fail(refs[5], error)).start()
    with pytest.raises(skate.exceptions.TaskCancelledError):
        skate.get(refs, timeout=60)
