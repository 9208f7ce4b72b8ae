"""Signals that come while the engine is at work: none is lost, none is late."""

from __future__ import annotations

import signal
import sys
import textwrap
import threading
from typing import Any

import pytest

from skate.engine.local import interrupts
from skate.engine.local.interrupts import Interrupts
from skate.engine.local.reactor import Waiter
from tests.support import run_program


def run(program: str) -> list[str]:
    done = run_program([sys.executable, "-c", textwrap.dedent(program)], check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.run has no handler of its own")
def test_started_inside_asyncio_run_the_handler_is_asyncios() -> None:
    program = """
        import asyncio, os, signal
        import skate

        async def main():
            skate.init(num_cpus=1)
            assert await skate.remote(lambda: 1).remote() == 1
            skate.get(skate.put(1))
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                print("cancelled")
                raise

        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted")
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
        skate.shutdown()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    """
    assert run(program) == ["cancelled", "interrupted"]


def test_control_c_while_another_thread_shuts_down_is_not_lost() -> None:
    program = """
        import os, signal, threading, time
        import skate
        from skate.engine import installed_engine

        skate.init(num_cpus=1)
        engine = installed_engine()
        remove = engine.session.remove

        def remove_after_the_signal():
            os.kill(os.getpid(), signal.SIGINT)
            while not engine.interrupts.pending:
                time.sleep(0.001)
            remove()

        engine.session.remove = remove_after_the_signal
        stopping = threading.Thread(target=skate.shutdown)
        try:
            stopping.start()
            stopping.join()
            threading.Event().wait(30)
            print("lost")
        except KeyboardInterrupt:
            print("interrupted")
        stopping.join()
    """
    assert run(program) == ["interrupted"]


class Clockwork:
    """A reactor in which time passes only while somebody waits: always 7 seconds, at most."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[float | None] = []
        self.leading = False

    def leads(self) -> bool:
        return self.leading

    def run_until(self, waiter: Waiter, timeout: float | None, stop: Any = None) -> bool:
        self.asked.append(timeout)
        self.now += 7.0 if timeout is None else min(7.0, timeout)
        if stop is not None:
            stop.pending = self.leading = True  # something was put off, and this is no safe point
        return False


def test_a_wait_that_was_interrupted_keeps_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    reactor: Any = Clockwork()
    monkeypatch.setattr(interrupts.time, "monotonic", lambda: reactor.now)
    waiting = Interrupts(reactor, threading.RLock())
    try:
        assert not waiting.wait(Waiter(), 10.0)
    finally:
        waiting.close()
    assert reactor.asked == [10.0, 3.0]


class CancelledWhileWaiting:
    """A reactor that is leading when the signal of a cancellation comes; a call further, what is
    waited for is there."""

    def __init__(self) -> None:
        self.leading = self.cancelled = False
        self.cancels = True

    def leads(self) -> bool:
        return self.leading

    def interrupt(self) -> None:
        """Do nothing: it returns anyway."""

    def run_until(self, waiter: Waiter, timeout: float | None, stop: Any = None) -> bool:
        if self.cancels:
            self.cancelled = self.leading = True
            signal.raise_signal(signal.SIGINT)
            self.leading = False
        return not (stop is not None and stop.pending)


def test_one_task_after_another_is_cancelled_while_it_waits() -> None:
    reactor: Any = CancelledWhileWaiting()
    waiting = Interrupts(reactor, threading.RLock(), lambda: reactor.cancelled)
    try:
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                waiting.wait(Waiter(), None)
            reactor.cancelled = False  # the next task
        reactor.cancels = False
        assert waiting.wait(Waiter(), None)
    finally:
        waiting.close()


def test_a_cancellation_that_came_too_late_is_not_for_the_next_task() -> None:
    reactor: Any = CancelledWhileWaiting()
    reactor.leading = reactor.cancelled = True
    reactor.call_later = lambda delay, callback: None  # the task has ended before that comes
    waiting = Interrupts(reactor, threading.RLock(), lambda: reactor.cancelled)
    try:
        signal.raise_signal(signal.SIGINT)
        waiting.forget_cancellation()
        reactor.leading = reactor.cancelled = reactor.cancels = False
        assert waiting.wait(Waiter(), None)
    finally:
        waiting.close()


def test_what_was_put_off_at_the_end_is_for_the_user() -> None:
    handled: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: handled.append(number))
    reactor: Any = Clockwork()
    reactor.leading = True
    reactor.call_later = lambda delay, callback: None  # it is closed before that comes
    try:
        waiting = Interrupts(reactor, threading.RLock())
        signal.raise_signal(signal.SIGUSR1)
        assert handled == []
        waiting.close()
        assert handled == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_in_what_pickling_calls_is_not_taken_for_an_error_of_the_value() -> None:
    program = """
        import os, signal
        import skate

        class Alarm(Exception):
            pass

        def ring(*_):
            raise Alarm

        class Value:
            def __reduce__(self):
                os.kill(os.getpid(), signal.SIGALRM)
                return Value, ()

        signal.signal(signal.SIGALRM, ring)
        skate.init(num_cpus=1)
        try:
            skate.put(Value())
        except Alarm:
            print("rang")
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        assert isinstance(skate.get(skate.put(Value())), Value)
        skate.shutdown()
    """
    assert run(program) == ["rang"]
