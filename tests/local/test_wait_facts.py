"""Why something does not come: causes, built, and what is said of each."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import skate
from skate.engine import current_engine
from skate.engine.local import waiting
from skate.engine.sessions import own_session
from skate.util import collective
from skate.util.collective._meeting import open_meeting
from skate.util.queue import Queue
from tests.support import eventually

HERE = Path(__file__).name

Row = dict[str, Any]


@skate.remote
class Counter:
    def zero(self) -> int:
        return 0

    def ask_itself(self, me: Any) -> Any:
        return skate.get(me.zero.remote())

    def pid(self) -> int:
        return os.getpid()

    def hang(self) -> None:
        time.sleep(10_000)


# -- the causes ---------------------------------------------------------------------------------


@skate.remote(num_gpus=1)
def inner() -> None: ...


@skate.remote(num_gpus=1)
def outer() -> Any:
    return skate.get(inner.remote())


@skate.remote
def locked() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@skate.remote
def endless() -> None:
    while True:
        pass


@skate.remote
def asleep_in_c() -> None:
    import ctypes

    ctypes.PyDLL(None).sleep(10_000)  # with the interpreter's lock


@skate.remote(num_returns="streaming", _generator_backpressure_num_objects=1)
def producer() -> Iterator[int]:
    yield 1
    yield 2
    yield 3


@skate.remote
def reader(pipe: str) -> str:
    with open(pipe) as file:
        return file.read()


@skate.remote
def listener() -> bytes:
    import socket

    here, _there = socket.socketpair()
    return here.recv(1)


@skate.remote
def debugged(pipe: str) -> None:
    import io
    import pdb

    end = os.open(pipe, os.O_RDWR)  # nobody types
    pdb.Pdb(stdin=os.fdopen(end), stdout=io.StringIO()).set_trace()
    time.sleep(0)


@skate.remote
def add(a: int, b: int) -> int:
    return a + b


@skate.remote
class Member:
    """One of two, of whom each calls something else."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def join(self) -> None:
        collective.init_collective_group(2, self.rank, "gloo", "pair")

    def meet(self) -> None:
        if self.rank == 0:
            collective.allreduce(np.ones(1), "pair")
        else:
            collective.recv(np.ones(1), 0, "pair")


class Built(NamedTuple):
    """What a test waits for, and what keeps the rest of it alive."""

    ref: Any = None
    keep: Any = None


def nested_get(_: Path) -> Built:
    return Built(outer.remote())


def self_call(_: Path) -> Built:
    counter = Counter.remote()
    return Built(counter.ask_itself.remote(counter), counter)


def resources(_: Path) -> Built:
    holder = Counter.options(num_cpus=2, name="greedy").remote()
    skate.get(holder.zero.remote())
    late = Counter.options(num_cpus=1).remote()
    return Built(late.zero.remote(), (holder, late))


def full_pool(_: Path) -> Built:
    busy = [locked.remote(), locked.remote()]
    return Built(add.remote(1, 2), busy)


def full_queue(_: Path) -> Built:
    queue: Queue = Queue(maxsize=1)
    queue.put(1)
    assert queue.actor is not None
    return Built(queue.actor.put.remote(2), queue)


def missing_rank(_: Path) -> Built:
    meeting: Any = open_meeting("pair")
    return Built(meeting.join.remote(0, 2, 10_000.0), meeting)


def mismatch(_: Path) -> Built:
    workers = [Member.remote(rank) for rank in range(2)]
    skate.get([worker.join.remote() for worker in workers])
    calls = [worker.meet.remote() for worker in workers]
    return Built(calls[0], (workers, calls))


def backpressure(_: Path) -> Built:
    stream = producer.remote()
    return Built(stream.completed(), stream)


def stopped(_: Path) -> Built:
    counter = Counter.remote()
    os.kill(skate.get(counter.pid.remote()), signal.SIGSTOP)
    return Built(counter.zero.remote(), counter)


def behind(_: Path) -> Built:
    counter = Counter.remote()
    hanging = counter.hang.remote()
    return Built(add.remote(counter.zero.remote(), 1), (counter, hanging))


def slow_file(tmp_path: Path) -> Built:
    os.mkfifo(tmp_path / "pipe")
    return Built(reader.remote(str(tmp_path / "pipe")))


def debugger(tmp_path: Path) -> Built:
    os.mkfifo(tmp_path / "pipe")
    return Built(debugged.remote(str(tmp_path / "pipe")))


class Case(NamedTuple):
    """A cause: how it is built, what the row has, and what its text says."""

    build: Callable[[Path], Built]
    cause: str
    texts: tuple[str, ...]
    row: Row = {}  # noqa: RUF012 - never changed


CASES = {
    "nested get": Case(
        nested_get,
        "waiting",
        ("deadlock: outer", "inner needs", "GPU: 0 is free", "outer (process", "has held GPU: 1"),
        {"deadlock": ["outer", "inner"], "waits_for": ["inner"]},
    ),
    "an actor waits for itself": Case(
        self_call,
        "waiting",
        ("deadlock: Counter.ask_itself", "Counter.zero is behind Counter.ask_itself"),
        {"deadlock": ["Counter.ask_itself", "Counter.zero"]},
    ),
    "resources never free": Case(
        resources,
        "starting",
        ("Counter.zero waits until actor Counter has started", "actor Counter 'greedy' (process",
         "idle, has held CPU: 2 for"),
    ),
    "lock": Case(lambda _: Built(locked.remote()), "running", (f"{HERE}:", "in locked")),
    "endless loop": Case(lambda _: Built(endless.remote()), "running", (f"{HERE}:", "in endless")),
    "sleep in C": Case(
        lambda _: Built(asleep_in_c.remote()), "silent", ("asleep_in_c runs", "does not answer")
    ),
    "full queue": Case(full_queue, "library", ("the queue is full, all 1 places are taken",)),
    "missing rank": Case(
        missing_rank, "library", ("rank 1 of 2 has not joined the collective group 'pair'",)
    ),
    "collective mismatch": Case(
        mismatch,
        "library",
        (f"{HERE}:", "in meet", "rank 0 of 2 in the collective group 'pair' waits in allreduce"),
    ),
    "back-pressure": Case(backpressure, "backpressure", ("producer", "more of its items")),
    "stopped process": Case(stopped, "stopped", ("which is stopped (kill -CONT",)),
    "exhausted pool": Case(
        full_pool, "resources", ("add needs CPU: 1, and CPU: 0 is free", "locked (process")
    ),
    "behind another call": Case(
        behind,
        "arguments",
        ("add waits for its arguments, from Counter.zero", "Counter.zero is behind Counter.hang",
         "Counter.hang runs in process", "in hang"),
    ),
    "dead peer": Case(lambda _: Built(listener.remote()), "running", (f"{HERE}:", "in listener")),
    "slow file system": Case(slow_file, "running", (f"{HERE}:", "in reader")),
    "debugger": Case(debugger, "running", (f"{HERE}:", "in debugged")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_said_of_a_wait(case: Case, tmp_path: Path) -> None:
    skate.init(num_cpus=2, num_gpus=1)
    try:
        built = case.build(tmp_path)
        engine: Any = current_engine()
        found: list[Row] = []

        def known() -> bool:
            found[:] = engine.wait_facts([built.ref._entry])
            return all(text in found[0]["text"] for text in case.texts)

        try:
            eventually(known)
        except TimeoutError:
            pytest.fail(f"it says: {found}")
        (row,) = found
        assert row["cause"] == case.cause
        assert case.row.items() <= row.items()
        assert_stacks_say_it(built.ref, case)
    finally:
        skate.shutdown()


def wait_until_the_end(ref: Any) -> None:
    with suppress(skate.exceptions.SkateError):
        skate.get(ref)


def assert_stacks_say_it(ref: Any, case: Case) -> None:
    """From outside, of a driver that waits, the same is said; and where processes are."""
    threading.Thread(target=wait_until_the_end, args=(ref,)).start()
    found: list[Row] = []

    def known() -> bool:
        found[:] = own_session().stacks()
        said = " ".join(reason for row in found for reason in row["because"])
        return all(text in said for text in case.texts)

    try:
        eventually(known)
    except TimeoutError:
        pytest.fail(f"the stacks say: {[(row['pid'], row['because']) for row in found]}")
    assert found[0]["waits_for"][0]["object_id"] == f"{ref._entry.id:056x}"
    frames = [
        frame for row in found for thread in row.get("threads", ()) for frame in thread["frames"]
    ]
    assert any(frame["file"] == __file__ and frame["line"] for frame in frames)


def test_a_module_that_is_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are asked at any moment, also while a thread imports asyncio."""
    monkeypatch.setitem(sys.modules, "asyncio", ModuleType("asyncio"))
    assert list(waiting._in_event_loop()) == []
