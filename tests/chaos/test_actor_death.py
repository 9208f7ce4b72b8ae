"""Actors die with calls queued, in every way; callers get an answer."""

import ctypes
import os
import signal
import threading

import psutil
import pytest

import skate
from tests.support import eventually, local_only

pytestmark = [local_only, pytest.mark.usefixtures("engine")]

Died = skate.exceptions.ActorDiedError


@skate.remote
class Victim:
    def __init__(self):
        self.calls = 0

    def pid(self):
        return os.getpid()

    def work(self, i):
        self.calls += 1
        return i

    def hold(self, flag):
        flag.wait()

    def die(self, how):
        {"kill": lambda: os.kill(os.getpid(), signal.SIGKILL), "exit": lambda: os._exit(3)}.get(
            how, lambda: ctypes.string_at(0)
        )()


def test_queued_calls_get_an_error(flag):
    victim, never = Victim.remote(), flag("never")
    pid = skate.get(victim.pid.remote())
    refs = [victim.hold.remote(never), *[victim.work.remote(i) for i in range(100)]]
    os.kill(pid, signal.SIGKILL)
    for ref in refs:
        with pytest.raises(Died):
            skate.get(ref, timeout=60)


def test_queued_calls_are_run_by_the_next_life(flag):
    victim = Victim.options(max_restarts=1, max_task_retries=1).remote()
    go = flag("go")
    pid = skate.get(victim.pid.remote())
    refs = [victim.hold.remote(go), *[victim.work.remote(i) for i in range(100)]]
    os.kill(pid, signal.SIGKILL)
    go.set()
    assert skate.get(refs, timeout=60) == [None, *range(100)]


@pytest.mark.parametrize("how", ["kill", "exit", "segfault"])
def test_every_way_to_die_is_a_typed_error(how):
    victim = Victim.remote()
    with pytest.raises(Died):
        skate.get(victim.die.remote(how), timeout=60)
    with pytest.raises(Died):
        skate.get(victim.work.remote(1), timeout=60)


def test_an_error_names_the_actor_and_its_end():
    victim = Victim.options(name="the victim").remote()
    with pytest.raises(Died) as info:
        skate.get(victim.die.remote("kill"), timeout=60)
    assert "Victim" in str(info.value)
    assert "SIGKILL" in str(info.value)


def test_dying_in_the_constructor():
    @skate.remote
    class Stillborn:
        def __init__(self):
            os.kill(os.getpid(), signal.SIGKILL)

        def hello(self):
            return "never"

    actor = Stillborn.remote()
    with pytest.raises(Died):
        skate.get(actor.hello.remote(), timeout=60)


def test_dying_in_the_constructor_once(tally):
    @skate.remote(max_restarts=2, max_task_retries=2)
    class Second:
        def __init__(self):
            if tally.add() == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        def hello(self):
            return "alive"

    actor = Second.remote()
    assert skate.get(actor.hello.remote(), timeout=60) == "alive"


def test_dying_again_and_again():
    victim = Victim.options(max_restarts=-1, max_task_retries=-1).remote()
    for i in range(10):
        os.kill(skate.get(victim.pid.remote(), timeout=60), signal.SIGKILL)
        assert skate.get(victim.work.remote(i), timeout=60) == i


def test_a_caller_in_another_actor_gets_the_error():
    @skate.remote
    class Caller:
        def call(self, victim):
            try:
                skate.get(victim.die.remote("kill"), timeout=60)
            except Died:
                return "typed"

    caller, victim = Caller.remote(), Victim.remote()
    assert skate.get(caller.call.remote(victim), timeout=60) == "typed"


def test_every_result_of_a_call_between_actors_gets_the_error():
    @skate.remote
    class Caller:
        def call(self, victim):
            for i in range(50):  # so that calls take the shortest way
                skate.get(victim.work.remote(i))
            refs = victim.die.options(num_returns=2).remote("exit")
            return [self.outcome(ref) for ref in refs]

        def outcome(self, ref):
            try:
                skate.get(ref, timeout=60)
            except Died:
                return "died"

    caller, victim = Caller.remote(), Victim.remote()
    assert skate.get(caller.call.remote(victim), timeout=60) == ["died", "died"]


def test_the_children_of_a_dead_actor_are_freed():
    @skate.remote
    class Parent:
        def __init__(self):
            self.child = Victim.remote()

        def child_pid(self):
            return skate.get(self.child.pid.remote())

    parent = Parent.remote()
    pid = skate.get(parent.child_pid.remote(), timeout=60)
    skate.kill(parent)
    eventually(lambda: not psutil.pid_exists(pid))


def test_an_async_actor_dies_with_many_calls_under_way():
    @skate.remote
    class Async:
        async def wait(self):
            import asyncio

            await asyncio.sleep(1000)

        async def pid(self):
            return os.getpid()

    actor = Async.remote()
    refs = [actor.wait.remote() for _ in range(50)]
    os.kill(skate.get(actor.pid.remote(), timeout=60), signal.SIGKILL)
    for ref in refs:
        with pytest.raises(Died):
            skate.get(ref, timeout=60)


def test_a_name_is_free_after_death():
    victim = Victim.options(name="reborn").remote()
    with pytest.raises(Died):
        skate.get(victim.die.remote("kill"), timeout=60)
    again = Victim.options(name="reborn").remote()
    assert skate.get(again.work.remote(1), timeout=60) == 1


def test_a_stream_of_a_dying_actor():
    @skate.remote
    class Streamer:
        def stream(self):
            yield 1
            threading.Event().wait(0.01)
            os._exit(1)

    streamer = Streamer.remote()
    stream = streamer.stream.remote()
    assert skate.get(next(stream), timeout=60) == 1
    with pytest.raises(Died):
        skate.get(next(stream), timeout=60)
