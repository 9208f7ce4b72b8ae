"""Actors that end themselves: by every way, from every kind of actor, wanted or as a crash."""

import asyncio
import atexit
import os
import sys
import threading

import psutil
import pytest

import skate
from tests.support import PATIENCE, Tally, eventually, local_only, parallel

pytestmark = pytest.mark.usefixtures("engine")

ActorDied = skate.exceptions.ActorDiedError
Unavailable = skate.exceptions.ActorUnavailableError


def leave(way):
    if way == "exit_actor":
        skate.actor.exit_actor()
    elif way == "exit_actor, caught":
        try:
            skate.actor.exit_actor()
        except BaseException:
            return "survived"
    elif way == "sys.exit(0)":
        sys.exit(0)
    elif way == "sys.exit(3)":
        sys.exit(3)
    return "not left"


class Sync:
    def __init__(self, tally=None, at_exit=False):
        self.tally = tally
        if at_exit:
            atexit.register(tally.add, "atexit")

    def leave(self, way):
        if self.tally is not None:
            self.tally.add("called")
        return leave(way)

    def hold(self, started):
        started.set()
        threading.Event().wait()

    def answer(self, started, go, fail=False):
        started.set()
        go.wait()
        if fail:
            raise ValueError("on purpose")
        return "answered"

    def pid(self):
        return os.getpid()


class Async(Sync):
    async def leave(self, way):
        return super().leave(way)

    async def hold(self, started):
        started.set()
        await asyncio.Event().wait()

    async def answer(self, started, go, fail=False):
        return await asyncio.to_thread(super().answer, started, go, fail)

    async def pid(self):
        return os.getpid()


KINDS = {
    "sync": (Sync, {}),
    "threads": (Sync, {"max_concurrency": 3}),
    "groups": (Sync, {"concurrency_groups": {"io": 2}}),
    "async": (Async, {}),
    "async groups": (Async, {"concurrency_groups": {"io": 2}}),
}
WAYS = ["exit_actor", "exit_actor, caught", "sys.exit(0)", "sys.exit(3)", "__ray_terminate__"]


def has_ended(process):
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def actor_of(kind, *args, **options):
    cls, own = KINDS[kind]
    return skate.remote(**{"max_restarts": 0, **own, **options})(cls).remote(*args)


def leave_by(actor, way, **options):
    if way == "__ray_terminate__":
        return actor.__ray_terminate__.remote()
    return actor.leave.options(**options).remote(way)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.differs_from_ray("Ray never answers after sys.exit in an async method")
def test_the_call_fails_and_so_do_later_ones(kind):
    for way in WAYS:
        actor = actor_of(kind)
        skate.get(actor.pid.remote(), timeout=PATIENCE)
        with pytest.raises(ActorDied):
            skate.get(leave_by(actor, way), timeout=PATIENCE)
        with pytest.raises(ActorDied):
            skate.get(actor.pid.remote(), timeout=PATIENCE)


@parallel
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.differs_from_ray("Ray never answers after sys.exit in an async method")
def test_the_process_ends_in_order(kind, tmp_path):
    for number, way in enumerate(WAYS):
        tally = Tally(tmp_path / str(number))
        actor = actor_of(kind, tally, True)
        process = psutil.Process(skate.get(actor.pid.remote(), timeout=PATIENCE))
        with pytest.raises(ActorDied):
            skate.get(leave_by(actor, way), timeout=PATIENCE)
        eventually(lambda ps=process: has_ended(ps))
        called = [] if way == "__ray_terminate__" else ["called"]
        assert tally.words() == [*called, "atexit"]


@parallel
@pytest.mark.parametrize("kind", ["threads", "groups", "async groups"])
def test_calls_under_way_are_answered_before_the_end(kind, flag):
    actor = actor_of(kind, max_concurrency=3)
    process = psutil.Process(skate.get(actor.pid.remote(), timeout=PATIENCE))
    go, begun = flag("go"), [flag("first"), flag("second")]
    answered = actor.answer.remote(begun[0], go)
    failed = actor.answer.remote(begun[1], go, True)
    for started in begun:
        started.wait()
    left = leave_by(actor, "exit_actor", concurrency_group=None if kind == "threads" else "io")
    skate.wait([left], timeout=0)
    go.set()
    assert skate.get(answered, timeout=PATIENCE) == "answered"
    with pytest.raises(ValueError, match="on purpose"):
        skate.get(failed, timeout=PATIENCE)
    with pytest.raises(ActorDied):
        skate.get(left, timeout=PATIENCE)
    eventually(lambda: has_ended(process))


@local_only
@pytest.mark.parametrize("kind", ["threads", "groups", "async groups"])
def test_calls_under_way_that_do_not_end_fail_too(kind, flag):
    actor = actor_of(kind, runtime_env={"env_vars": {"SKATE_ACTOR_EXIT_SECONDS": "0.1"}})
    started = flag("started")
    held = actor.hold.remote(started)
    started.wait()
    leave_by(actor, "exit_actor", concurrency_group=None if kind == "threads" else "io")
    with pytest.raises(ActorDied):
        skate.get(held, timeout=PATIENCE)


@parallel
def test_calls_behind_the_exit_never_run(tally):
    actor = actor_of("sync", tally)
    calls = [actor.leave.remote("exit_actor"), *(actor.leave.remote("stay") for _ in range(5))]
    for call in calls:
        with pytest.raises(ActorDied):
            skate.get(call, timeout=PATIENCE)
    assert tally.words().count("called") == 1


@parallel
@pytest.mark.parametrize("kind", KINDS)
def test_a_thread_of_the_users_own_may_end_the_actor(kind):
    def run_in_thread(self):
        threading.Thread(target=skate.actor.exit_actor, daemon=True).start()

    actor = actor_of(kind)
    actor.__ray_call__.remote(run_in_thread)

    def ended():
        try:
            skate.get(actor.pid.remote(), timeout=PATIENCE)
        except ActorDied:
            return True
        return False

    eventually(ended)


# -- wanted, or a crash ---------------------------------------------------------------------------


@pytest.mark.parametrize("code", [None, 3, "text"])
def test_an_exit_with_any_code_but_zero_is_a_crash(code, tally):
    @skate.remote(max_restarts=1)
    class Quitter:
        def __init__(self):
            self.calls = 0

        def quit(self):
            tally.add("quit")
            sys.exit(code)

        def count(self):
            self.calls += 1
            return self.calls

    quitter = Quitter.remote()
    assert skate.get(quitter.count.remote()) == 1
    with pytest.raises(Unavailable):
        skate.get(quitter.quit.remote(), timeout=PATIENCE)

    def count():
        try:
            return skate.get(quitter.count.remote(), timeout=PATIENCE)
        except Unavailable:
            return None

    eventually(lambda: count() == 1)
    with pytest.raises(ActorDied):
        skate.get(quitter.quit.remote(), timeout=PATIENCE)
    assert len(tally) == 2


def test_a_call_that_exits_is_retried_as_after_a_crash(tally):
    @skate.remote(max_restarts=-1, max_task_retries=3)
    class Quitter:
        def quit_twice(self):
            if tally.add() < 3:
                sys.exit(1)
            return "stayed"

    quitter = Quitter.remote()
    assert skate.get(quitter.quit_twice.remote(), timeout=PATIENCE) == "stayed"
    assert len(tally) == 3


@pytest.mark.parametrize("way", ["exit_actor", "exit_actor, caught", "sys.exit(0)"])
def test_a_wanted_end_is_final(way, tally):
    actor = actor_of("sync", tally, max_restarts=-1, max_task_retries=-1)
    with pytest.raises(ActorDied):
        skate.get(actor.leave.remote(way), timeout=PATIENCE)
    with pytest.raises(ActorDied):
        skate.get(actor.pid.remote(), timeout=PATIENCE)
    assert tally.words().count("called") == 1


@local_only
def test_the_error_says_who_called_what():
    actor = actor_of("sync")
    with pytest.raises(ActorDied, match=r"Sync\.leave called sys\.exit\(3\)"):
        skate.get(actor.leave.remote("sys.exit(3)"), timeout=PATIENCE)


@parallel
def test_a_coroutine_of_the_users_own_exits(tally):
    @skate.remote(max_restarts=1)
    class Quitter:
        async def later(self):
            tally.add()
            self.task = asyncio.create_task(self.quit())

        async def quit(self):
            sys.exit(2)

        async def pid(self):
            return os.getpid()

    quitter = Quitter.remote()
    before = skate.get(quitter.pid.remote())
    quitter.later.remote()

    def restarted():
        try:
            return skate.get(quitter.pid.remote(), timeout=PATIENCE) != before
        except Unavailable:
            return False

    eventually(restarted)


@local_only
def test_what_does_not_let_itself_be_cancelled_does_not_keep_an_async_actor():
    @skate.remote(runtime_env={"env_vars": {"SKATE_ACTOR_EXIT_SECONDS": "0.1"}})
    class Stubborn:
        async def hold(self):
            while True:
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    pass

        async def leave(self):
            skate.actor.exit_actor()

    stubborn = Stubborn.remote()
    held = stubborn.hold.remote()
    for call in (stubborn.leave.remote(), held):
        with pytest.raises(ActorDied):
            skate.get(call, timeout=PATIENCE)
