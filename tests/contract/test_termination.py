"""SIGTERM to the process of an actor or a task: what can finish does, and what cannot is told."""

import asyncio
import atexit
import os
import signal
from contextlib import suppress

import psutil
import pytest

import skate
from tests.support import PATIENCE, eventually, local_only, parallel

pytestmark = pytest.mark.usefixtures("engine")

ActorDied = skate.exceptions.ActorDiedError


class Sync:
    def __init__(self, tally):
        self.tally = tally
        atexit.register(tally.add, "atexit")

    def pid(self):
        return os.getpid()

    def work(self, started, go):
        try:
            started.set()
            go.wait()
        finally:
            self.tally.add("finally")
        return "answered"

    def __ray_shutdown__(self):
        self.tally.add("shutdown")


class Async(Sync):
    async def work(self, started, go):
        started.set()
        while not go.is_set():
            await asyncio.sleep(0.01)
        return "answered"


KINDS = {"threads": (Sync, {"max_concurrency": 3}), "async": (Async, {})}


def started_actor(cls, tally, **options):
    actor = skate.remote(cls).options(num_cpus=0, **options).remote(tally)
    return actor, psutil.Process(skate.get(actor.pid.remote(), timeout=PATIENCE))


def has_ended(process):
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def terminate(process):
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGTERM)


@parallel
@pytest.mark.parametrize("kind", KINDS)
def test_calls_that_run_at_the_same_time_are_answered(kind, tally, flag):
    cls, options = KINDS[kind]
    actor, process = started_actor(cls, tally, **options)
    started, go = [flag("first"), flag("second")], flag("go")
    calls = [actor.work.remote(one, go) for one in started]
    for one in started:
        one.wait()
    process.send_signal(signal.SIGTERM)
    go.set()
    assert skate.get(calls, timeout=PATIENCE) == ["answered"] * 2
    eventually(lambda: has_ended(process))
    assert {"atexit", "shutdown"} <= set(tally.words())
    with pytest.raises(ActorDied):
        skate.get(actor.pid.remote(), timeout=PATIENCE)


@parallel
def test_a_call_that_runs_alone_is_left_through_its_finally_blocks(tally, flag):
    actor, process = started_actor(Sync, tally)
    call = actor.work.remote(flag("started"), flag("never"))
    behind = actor.pid.remote()
    flag("started").wait()
    process.send_signal(signal.SIGTERM)
    for lost in (call, behind):
        with pytest.raises(ActorDied, match="SIGTERM"):
            skate.get(lost, timeout=PATIENCE)
    eventually(lambda: has_ended(process))
    assert sorted(tally.words()) == ["atexit", "finally", "shutdown"]


@parallel
@pytest.mark.parametrize("kind", KINDS)
def test_an_idle_actor_cleans_up_and_restarts(kind, tally):
    cls, options = KINDS[kind]
    actor, process = started_actor(cls, tally, max_restarts=1, max_task_retries=1, **options)
    process.send_signal(signal.SIGTERM)
    eventually(lambda: has_ended(process))
    assert sorted(tally.words()) == ["atexit", "shutdown"]
    assert skate.get(actor.pid.remote(), timeout=PATIENCE) != process.pid


@parallel
def test_a_call_that_waits_for_a_value_is_left_and_retried(tally, flag):
    @skate.remote(num_cpus=0)
    def value(go):
        go.wait()
        return "value"

    class Waiting(Sync):
        def wait_for(self, refs):
            self.tally.add("waiting")
            return skate.get(refs[0])

    actor, process = started_actor(Waiting, tally, max_restarts=1, max_task_retries=1)
    call = actor.wait_for.remote([value.remote(flag("go"))])
    eventually(lambda: "waiting" in tally.words())
    process.send_signal(signal.SIGTERM)
    eventually(lambda: tally.words().count("waiting") == 2)
    flag("go").set()
    assert skate.get(call, timeout=PATIENCE) == "value"
    assert "shutdown" in tally.words()


@parallel
def test_a_task_is_left_through_its_finally_blocks_and_tried_again(tally, flag):
    @skate.remote(max_retries=1)
    def task(go):
        try:
            tally.add(os.getpid())
            go.wait()
        finally:
            tally.add("finally")
        return "done"

    ref = task.remote(flag("go"))
    eventually(lambda: len(tally) == 1)
    os.kill(int(tally.words()[0]), signal.SIGTERM)
    eventually(lambda: len(tally) == 3)
    flag("go").set()
    assert skate.get(ref, timeout=PATIENCE) == "done"
    assert tally.words().count("finally") == 2


@local_only
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_one_ends_the_process_at_once(kind, tally, flag):
    cls, options = KINDS[kind]
    actor, process = started_actor(cls, tally, **options)
    call = actor.work.remote(flag("started"), flag("never"))
    flag("started").wait()
    eventually(lambda: has_ended(process) or terminate(process))
    with pytest.raises(ActorDied, match="SIGTERM"):
        skate.get(call, timeout=PATIENCE)


@parallel
def test_a_handler_of_the_users_own_is_used_instead(tally):
    class Handling(Sync):
        def handle(self):
            signal.signal(signal.SIGTERM, lambda *_: self.tally.add("handled"))

    actor, process = started_actor(Handling, tally)
    skate.get(actor.handle.remote(), timeout=PATIENCE)
    process.send_signal(signal.SIGTERM)
    eventually(lambda: tally.words() == ["handled"])
    assert skate.get(actor.pid.remote(), timeout=PATIENCE) == process.pid


@local_only
def test_a_process_that_user_code_forks_ends_as_always(flag):
    @skate.remote
    def fork_and_terminate():
        import multiprocessing

        child = multiprocessing.get_context("fork").Process(target=flag("never").wait)
        child.start()
        child.terminate()
        child.join()
        return child.exitcode

    assert skate.get(fork_and_terminate.remote(), timeout=PATIENCE) == -signal.SIGTERM
