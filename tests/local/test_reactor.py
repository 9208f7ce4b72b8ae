"""Leader, followers, courier: who reads, and that everybody comes home."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skate.engine.local.reactor import Reactor, Waiter
from skate.engine.local.wire import Connection
from tests.support import PATIENCE, eventually


class Bench:
    """A reactor with a socket: what is sent from `far` is handled by whoever leads."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        near, self.far = socket.socketpair()
        self.near = Connection(near)
        self.waiters: dict[int, Waiter] = {}
        self.handled_by: list[str] = []
        self.reactor.add(near.fileno(), self._readable)
        self._threads: list[threading.Thread] = []

    def _readable(self) -> None:
        for byte in self.near.socket.recv(100):
            self.handled_by.append(threading.current_thread().name)
            if byte in self.waiters:
                self.waiters[byte].finish()

    def waiter(self, number: int) -> Waiter:
        return self.waiters.setdefault(number, Waiter())

    def send(self, *numbers: int) -> None:
        self.far.send(bytes(numbers))

    def spawn(self, body: Callable[[], object], name: str = "user") -> list[Any]:
        """Run in a thread; the result appears in the list."""
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(body()), name=name)
        self._threads.append(thread)
        thread.start()
        return results

    def wait_in_thread(self, waiter: Waiter, timeout: float | None = PATIENCE) -> list[bool]:
        return self.spawn(lambda: self.reactor.run_until(waiter, timeout))

    def until_followers(self, count: int) -> None:
        eventually(lambda: len(self.reactor._followers) == count)

    def until_led(self) -> None:
        eventually(self.reactor._lead.locked)

    def close(self) -> None:
        if not self.reactor.closed:
            self.reactor.close()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        self.near.close()
        self.far.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


# -- waiting -----------------------------------------------------------------------------------


def test_whoever_waits_reads(bench: Bench) -> None:
    bench.send(1)
    assert bench.reactor.run_until(bench.waiter(1), PATIENCE)
    assert bench.handled_by == [threading.current_thread().name]


def test_what_is_done_needs_no_waiting(bench: Bench) -> None:
    waiter = Waiter()
    waiter.finish()
    waiter.finish()
    assert bench.reactor.run_until(waiter)
    assert bench.reactor.run_until(waiter, 0)


def test_time_runs_out(bench: Bench) -> None:
    start = time.monotonic()
    assert not bench.reactor.run_until(Waiter(), 0.02)
    assert time.monotonic() - start >= 0.02
    assert not bench.reactor._lead.locked()


def test_no_time_at_all_still_sees_what_has_come(bench: Bench) -> None:
    assert not bench.reactor.run_until(bench.waiter(1), 0)
    bench.send(1)
    assert any(bench.reactor.run_until(bench.waiter(1), 0) for _ in range(100))


def test_time_runs_out_for_followers_too(bench: Bench) -> None:
    leader = bench.wait_in_thread(bench.waiter(1))
    bench.until_led()
    assert not bench.reactor.run_until(Waiter(), 0.02)
    assert not bench.reactor.run_until(Waiter(), 0)
    assert not bench.reactor._followers
    bench.send(1)
    eventually(lambda: leader == [True])


def test_a_stop_ends_the_wait(bench: Bench) -> None:
    class Stop:
        pending = False

    def stop() -> None:
        Stop.pending = True

    bench.reactor.call_later(0.001, stop)
    assert not bench.reactor.run_until(Waiter(), PATIENCE, Stop())


class StopAtOnce:
    """Told just after the first look, by someone whose alarm another leader has read."""

    def __init__(self) -> None:
        self._looks = iter([False])

    @property
    def pending(self) -> bool:
        return next(self._looks, True)

    @pending.setter
    def pending(self, value: bool) -> None:
        raise AssertionError("a wait does not tell its own end")


def test_a_stop_before_the_lead_is_taken_ends_the_wait(bench: Bench) -> None:
    stopped = bench.spawn(lambda: bench.reactor.run_until(Waiter(), None, StopAtOnce()))
    eventually(lambda: stopped == [False])


def test_a_stop_before_a_follower_sleeps_ends_its_wait(bench: Bench) -> None:
    leader = bench.wait_in_thread(bench.waiter(1))
    bench.until_led()
    stopped = bench.spawn(lambda: bench.reactor.run_until(Waiter(), None, StopAtOnce()))
    eventually(lambda: stopped == [False])
    bench.send(1)
    eventually(lambda: leader == [True])


def test_a_short_look_before_sleeping_changes_nothing(bench: Bench) -> None:
    for number in range(1, 40):
        waiter = bench.waiter(number)
        waiter.look = True
        if number % 2:
            bench.send(number)
        else:
            bench.reactor.call_later(0.0005, lambda number=number: bench.send(number))  # type: ignore[misc]
        assert bench.reactor.run_until(waiter, PATIENCE)


def test_an_interrupt_makes_the_leader_look_again(bench: Bench) -> None:
    waiter = Waiter()
    result = bench.wait_in_thread(waiter)
    bench.until_led()
    waiter.done = True  # by a thread that has not read it from a socket
    bench.reactor.interrupt()
    eventually(lambda: result == [True])


# -- followers ---------------------------------------------------------------------------------


def test_the_leader_finishes_its_followers(bench: Bench) -> None:
    leader = bench.wait_in_thread(bench.waiter(1))
    bench.until_led()
    follower = bench.wait_in_thread(bench.waiter(2))
    bench.until_followers(1)
    bench.send(2)
    eventually(lambda: follower == [True])
    assert leader == []
    bench.send(1)
    eventually(lambda: leader == [True])


def test_a_follower_leads_when_the_leader_has_left(bench: Bench) -> None:
    results = [bench.wait_in_thread(bench.waiter(1))]
    bench.until_led()
    for number in range(2, 12):
        results.append(bench.wait_in_thread(bench.waiter(number)))
        bench.until_followers(number - 1)
    for number, result in enumerate(results, 1):
        bench.send(number)
        eventually(lambda result=result: result == [True])  # type: ignore[misc]
    assert not bench.reactor._lead.locked()


def test_a_waiter_finished_by_any_thread(bench: Bench) -> None:
    leader = bench.wait_in_thread(bench.waiter(1))
    bench.until_led()
    waiter = Waiter()
    follower = bench.wait_in_thread(waiter)
    bench.until_followers(1)
    waiter.finish()
    eventually(lambda: follower == [True])
    bench.send(1)
    eventually(lambda: leader == [True])


def test_a_follower_that_is_done_as_it_is_promoted_passes_the_lead_on(bench: Bench) -> None:
    class DoneWhenWoken(Waiter):
        def wake(self) -> None:
            self.done = True
            super().wake()

    leader = bench.wait_in_thread(bench.waiter(1))
    bench.until_led()
    first = bench.wait_in_thread(DoneWhenWoken())
    bench.until_followers(1)
    second = bench.wait_in_thread(bench.waiter(2))
    bench.until_followers(2)
    bench.send(1)
    eventually(lambda: leader == first == [True])
    bench.send(2)
    eventually(lambda: second == [True])


def test_many_threads_and_many_answers(bench: Bench) -> None:
    bench.reactor.start_courier()

    def work(number: int) -> int:
        for _ in range(50):
            bench.waiters[number] = Waiter()
            bench.send(number)
            assert bench.reactor.run_until(bench.waiters[number], PATIENCE)
        return number

    results = [bench.spawn(lambda number=number: work(number)) for number in range(8)]  # type: ignore[misc]
    eventually(lambda: all(results))
    assert [result[0] for result in results] == list(range(8))
    assert len(bench.handled_by) == 400


# -- timers and callbacks ----------------------------------------------------------------------


def test_timers_run_in_the_order_in_which_they_are_due(bench: Bench, monkeypatch: Any) -> None:
    ran: list[int] = []
    waiter = Waiter()
    now = time.monotonic()
    with monkeypatch.context() as all_at_once:
        all_at_once.setattr("skate.engine.local.reactor.time.monotonic", lambda: now)
        bench.reactor.call_later(0.012, waiter.finish)
        for delay in (8, 2, 5):
            bench.reactor.call_later(delay / 1000, lambda delay=delay: ran.append(delay))  # type: ignore[misc]
        bench.reactor.call_later(0.002, lambda: ran.append(0))
    assert bench.reactor.run_until(waiter, PATIENCE)
    assert ran == [2, 0, 5, 8]


def test_a_timer_wakes_a_leader_that_sleeps_without_limit(bench: Bench) -> None:
    waiter = Waiter()
    result = bench.wait_in_thread(waiter, None)
    bench.until_led()
    bench.reactor.call_later(0.001, waiter.finish)
    eventually(lambda: result == [True])


def test_a_timer_may_set_another(bench: Bench) -> None:
    waiter = Waiter()
    bench.reactor.call_later(0, lambda: bench.reactor.call_later(0.001, waiter.finish))
    assert bench.reactor.run_until(waiter, PATIENCE)


def test_the_error_of_a_timer_is_not_the_error_of_whoever_leads(
    bench: Bench, monkeypatch: Any
) -> None:
    seen: list[type[BaseException]] = []
    monkeypatch.setattr("sys.excepthook", lambda kind, error, trace: seen.append(kind))
    waiter = Waiter()
    bench.reactor.call_later(0, lambda: 1 // 0)  # type: ignore[arg-type]
    bench.reactor.call_later(0, waiter.finish)
    assert bench.reactor.run_until(waiter, PATIENCE)
    assert seen == [ZeroDivisionError]


def test_what_is_to_run_afterwards_runs_outside_of_handlers(bench: Bench) -> None:
    order: list[str] = []
    waiter = Waiter()

    def after() -> None:
        order.append("after")
        waiter.finish()

    def handler() -> None:
        bench.near.socket.recv(100)
        bench.reactor.after.append(after)
        order.append("handler done")

    bench.reactor.remove(bench.near.fileno())
    bench.reactor.add(bench.near.fileno(), handler)
    bench.send(1)
    assert bench.reactor.run_until(waiter, PATIENCE)
    assert order == ["handler done", "after"]


def test_a_removed_descriptor_is_not_handled(bench: Bench) -> None:
    bench.reactor.remove(bench.near.fileno())
    bench.reactor.remove(bench.near.fileno())
    bench.send(1)
    assert not bench.reactor.run_until(bench.waiter(1), 0.01)
    assert bench.handled_by == []


# -- writing -----------------------------------------------------------------------------------


def test_a_leader_writes_what_was_collected(bench: Bench) -> None:
    bench.reactor.collect(bench.near, (1,))
    bench.reactor.collect(bench.near, (2,))
    assert len(bench.reactor.dirty) == 1
    bench.reactor.run_until(Waiter(), 0)
    far = Connection(bench.far)
    assert far.receive() == [(1,), (2,)]


def test_a_flush_by_another_thread_at_the_worst_moment_leaves_nothing(bench: Bench) -> None:
    class Hasty(list[Connection]):
        """Flushed by somebody else at every step."""

        def append(self, connection: Connection) -> None:
            bench.reactor.flush()
            super().append(connection)
            bench.reactor.flush()

    bench.reactor.dirty = Hasty()
    far = Connection(bench.far)
    for number in range(3):
        bench.reactor.collect(bench.near, (number,))
        bench.reactor.flush()
        assert far.receive() == [(number,)]


def test_a_full_socket_is_written_on_when_it_has_room(bench: Bench) -> None:
    bench.reactor.start_courier()
    payload = b"x" * (4 << 20)
    bench.reactor.collect(bench.near, (1, payload))
    bench.reactor.flush()
    far = Connection(bench.far)
    received: list[Any] = []

    def read() -> bool:
        received.extend(far.receive() or [])
        return bool(received)

    eventually(read)
    assert received == [(1, payload)]
    eventually(lambda: not bench.reactor._writers)


def test_a_connection_may_be_removed_while_another_thread_finds_it_full(bench: Bench) -> None:
    remover = threading.Thread(target=lambda: bench.reactor.remove(bench.near.fileno()))

    class Slow:
        """A poller that is overtaken, if that is possible at all."""

        def __init__(self, poller: Any) -> None:
            self.unregister, self.close, self._poller = poller.unregister, poller.close, poller

        def modify(self, fd: int, mask: int) -> None:
            remover.start()
            remover.join(0.05)
            self._poller.modify(fd, mask)

    bench.reactor._poller = Slow(bench.reactor._poller)  # type: ignore[assignment]
    bench.reactor.collect(bench.near, (1, b"x" * (4 << 20)))
    bench.reactor.flush()
    remover.join(PATIENCE)
    assert bench.near.fileno() not in bench.reactor._handlers


def test_room_that_nobody_waits_for_does_not_keep_the_leader_awake(bench: Bench) -> None:
    import select

    bench.reactor._poller.modify(bench.near.fileno(), select.EPOLLIN | select.EPOLLOUT)
    bench.reactor.turn(0)
    assert bench.reactor._poller.poll(0) == []


def test_help_writes_and_reads_without_waiting(bench: Bench) -> None:
    bench.reactor.collect(bench.near, (1,))
    bench.send(7)
    bench.reactor.help()
    assert len(bench.handled_by) == 1
    assert Connection(bench.far).receive() == [(1,)]


def test_help_only_writes_while_another_leads(bench: Bench) -> None:
    leader = bench.wait_in_thread(bench.waiter(1))
    bench.until_led()
    bench.reactor.collect(bench.near, (1,))
    bench.reactor.help()
    assert Connection(bench.far).receive() == [(1,)]
    bench.send(1)
    eventually(lambda: leader == [True])


# -- the courier -------------------------------------------------------------------------------


def test_the_courier_reads_while_nobody_waits(bench: Bench) -> None:
    bench.reactor.start_courier()
    bench.reactor.start_courier()
    bench.send(1, 2)
    eventually(lambda: bench.handled_by == ["skate-courier"] * 2)


def test_the_courier_runs_timers(bench: Bench) -> None:
    bench.reactor.start_courier()
    ran = threading.Event()
    bench.reactor.call_later(0.001, ran.set)
    assert ran.wait(PATIENCE)


def test_the_courier_writes_what_was_only_collected(bench: Bench) -> None:
    bench.reactor.start_courier()
    far = Connection(bench.far)
    for number in range(20):
        if number % 2:
            eventually(lambda: bench.reactor._courier_leads)
        bench.reactor.collect(bench.near, (number,))
        bench.reactor.touch()
        received: list[Any] = []
        eventually(lambda received=received: received.extend(far.receive() or []) or received)  # type: ignore[misc]
        assert received == [(number,)]


def test_the_courier_gives_way_to_a_thread_that_waits(bench: Bench) -> None:
    bench.reactor.start_courier()
    for number in range(1, 11):
        eventually(lambda: bench.reactor._courier_leads)
        result = bench.wait_in_thread(bench.waiter(number))
        eventually(lambda: not bench.reactor._courier_leads)
        bench.send(number)
        eventually(lambda result=result: result == [True])  # type: ignore[misc]
    assert bench.handled_by == ["user"] * 10


def test_the_courier_sleeps_while_a_thread_leads_and_takes_over_afterwards(bench: Bench) -> None:
    bench.reactor.start_courier()
    leader = bench.wait_in_thread(bench.waiter(1))
    eventually(lambda: bench.reactor._deep)
    bench.send(1)
    eventually(lambda: leader == [True])
    bench.send(2)
    eventually(lambda: bench.handled_by == ["user", "skate-courier"])


def test_the_courier_survives_a_handler_that_fails(bench: Bench, monkeypatch: Any) -> None:
    seen: list[type[BaseException]] = []
    monkeypatch.setattr("sys.excepthook", lambda kind, error, trace: seen.append(kind))
    bench.reactor.after.append(lambda: 1 // 0)  # type: ignore[arg-type]
    bench.reactor.start_courier()
    bench.send(1)
    eventually(lambda: seen == [ZeroDivisionError])
    bench.send(2)
    eventually(lambda: bench.handled_by == ["skate-courier"] * 2)


# -- the end -----------------------------------------------------------------------------------


def test_closing_sends_everybody_home(bench: Bench) -> None:
    bench.reactor.start_courier()
    results = [bench.wait_in_thread(Waiter(), None)]
    bench.until_led()
    results += [bench.wait_in_thread(Waiter(), None) for _ in range(3)]
    bench.until_followers(3)
    bench.reactor.close()
    eventually(lambda: results == [[False]] * 4)


def test_after_closing_nobody_waits_and_interrupts_are_no_error(bench: Bench) -> None:
    bench.reactor.close()
    assert not bench.reactor.run_until(Waiter())
    bench.reactor.interrupt()
    bench.reactor.call_later(0, lambda: None)
    bench.reactor.help()


def test_closing_from_a_handler_does_not_wait_for_itself(bench: Bench) -> None:
    bench.reactor.start_courier()
    eventually(lambda: bench.reactor._courier_leads)
    bench.reactor.call_later(0, bench.reactor.close)
    eventually(lambda: bench.reactor._poller.closed)


def test_closing_never_hangs() -> None:
    for number in range(200):
        bench = Bench()
        if number % 4:
            bench.reactor.start_courier()
        if number % 2:
            bench.wait_in_thread(bench.waiter(1))
        if number % 3 == 0:
            bench.wait_in_thread(Waiter(), None)
        if number % 4 and number % 5 == 0:
            bench.until_led()
        bench.send(1)
        if number % 7 == 0:
            bench.reactor.call_later(0.001, lambda: None)
        bench.close()
