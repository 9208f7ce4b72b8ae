"""Cancelling what waits, what runs and what is done."""

import asyncio
import os
import time

import pytest

import skate
from tests.support import eventually, parallel

pytestmark = pytest.mark.usefixtures("engine")

Cancelled = skate.exceptions.TaskCancelledError


@skate.remote
def identity(x):
    return x


@skate.remote(max_retries=0)
def spin(started):
    """Runs until it is interrupted, in small steps so that Python can be."""
    started.set()
    while True:
        time.sleep(0.001)


@skate.remote(num_cpus=2)
def hold(flag):
    flag.wait()


def test_cancelling_what_is_done_changes_nothing():
    ref = identity.remote(1)
    assert skate.get(ref) == 1
    skate.cancel(ref)
    assert skate.get(ref) == 1


@pytest.mark.parametrize("thing", [5, None])
def test_only_references_can_be_cancelled(thing):
    with pytest.raises((TypeError, ValueError)):
        skate.cancel(thing)


@parallel
@pytest.mark.parametrize("force", [False, True])
def test_a_waiting_task_never_runs(flag, tally, force):
    @skate.remote(num_cpus=2)
    def count():
        tally.add()

    go = flag("go")
    held = hold.remote(go)
    waiting = count.remote()
    skate.cancel(waiting, force=force)
    with pytest.raises(Cancelled):
        skate.get(waiting, timeout=60)
    go.set()
    skate.get(held)
    skate.get(identity.remote(1))
    assert len(tally) == 0


@parallel
def test_a_task_whose_arguments_are_not_there_yet(flag):
    go = flag("go")
    held = hold.remote(go)
    waiting = identity.remote(held)
    skate.cancel(waiting)
    with pytest.raises(Cancelled):
        skate.get(waiting, timeout=60)
    go.set()
    skate.get(held)


@parallel
def test_a_running_task_is_interrupted(flag):
    started = flag("started")
    ref = spin.remote(started)
    started.wait()
    skate.cancel(ref)
    with pytest.raises(Cancelled) as info:
        skate.get(ref, timeout=60)
    assert isinstance(info.value, skate.exceptions.RayTaskError)
    assert "in spin" in str(info.value)  # where it was
    assert "was cancelled" in str(info.value)
    assert skate.get(identity.remote("usable"), timeout=60) == "usable"


@parallel
def test_a_generator_that_runs_is_interrupted(flag):
    @skate.remote
    def count(started):
        yield 0
        started.set()
        while True:
            time.sleep(0.001)

    started = flag("started")
    items = count.remote(started)
    assert skate.get(next(items)) == 0
    started.wait()
    skate.cancel(items)
    last = next(items)
    with pytest.raises(Cancelled, match="was cancelled") as info:
        skate.get(last, timeout=60)
    assert isinstance(info.value, skate.exceptions.RayTaskError)
    with pytest.raises(StopIteration):
        next(items)


@parallel
def test_a_running_task_sees_a_keyboard_interrupt(flag, tally):
    @skate.remote
    def careful(started):
        try:
            started.set()
            while True:
                time.sleep(0.001)
        except KeyboardInterrupt:
            tally.add("interrupted")
            raise

    started = flag("started")
    ref = careful.remote(started)
    started.wait()
    skate.cancel(ref)
    with pytest.raises(Cancelled):
        skate.get(ref, timeout=60)
    assert tally.words() == ["interrupted"]


@parallel
def test_what_interrupts_itself_is_cancelled():
    @skate.remote
    def leave():
        raise KeyboardInterrupt("enough")

    @skate.remote
    class Leaver:
        def leave(self):
            raise KeyboardInterrupt("enough")

    for ref in (leave.remote(), Leaver.remote().leave.remote()):
        with pytest.raises(Cancelled):
            skate.get(ref)


@parallel
def test_force_kills_what_does_not_listen(flag):
    @skate.remote
    def deaf(started):
        while True:
            try:
                started.set()
                while True:
                    time.sleep(0.001)
            except KeyboardInterrupt:
                pass

    started = flag("started")
    ref = deaf.remote(started)
    started.wait()
    skate.cancel(ref, force=True)
    with pytest.raises((Cancelled, skate.exceptions.WorkerCrashedError)):
        skate.get(ref, timeout=60)
    assert skate.get(identity.remote("usable"), timeout=60) == "usable"


@parallel
@pytest.mark.differs_from_ray("Ray takes a second cancellation for the first one again")
def test_force_after_a_polite_attempt(flag, tally):
    @skate.remote(max_retries=0)
    def deaf(started):
        while True:
            try:
                started.set()
                while True:
                    time.sleep(0.001)
            except KeyboardInterrupt:
                tally.add("interrupted")

    started = flag("started")
    ref = deaf.remote(started)
    started.wait()
    skate.cancel(ref)
    eventually(lambda: len(tally) == 1)
    skate.cancel(ref, force=True)
    with pytest.raises((Cancelled, skate.exceptions.WorkerCrashedError)) as info:
        skate.get(ref, timeout=60)
    assert not isinstance(info.value, TimeoutError)


@parallel
def test_dependants_of_a_cancelled_task_fail(flag):
    started = flag("started")
    ref = spin.remote(started)
    dependant = identity.remote(ref)
    started.wait()
    skate.cancel(ref)
    with pytest.raises((Cancelled, skate.exceptions.RayTaskError)):
        skate.get(dependant, timeout=60)


@parallel
def test_one_task_after_another_is_cancelled_while_it_waits(flag):
    """Each may run in the process of the one before, and so may what is not cancelled."""

    @skate.remote(num_cpus=1)
    def wait_for(started, refs):
        started.set()
        return skate.get(refs[0])

    go = flag("go")
    held = hold.options(num_cpus=0).remote(go)
    for number in range(4):
        started = flag(f"started-{number}")
        ref = wait_for.remote(started, [held])
        started.wait()
        skate.cancel(ref)
        with pytest.raises((Cancelled, skate.exceptions.RayTaskError)):
            skate.get(ref, timeout=20)
    undisturbed, started = wait_for.remote(flag("last"), [held]), flag("last")
    started.wait()
    go.set()
    assert skate.get(undisturbed, timeout=60) is None


@parallel
def test_cancelling_reaches_the_children(flag):
    @skate.remote
    def parent(started):
        skate.get(spin.remote(started))

    started = flag("started")
    ref = parent.remote(started)
    started.wait()
    skate.cancel(ref, recursive=True)
    with pytest.raises((Cancelled, skate.exceptions.RayTaskError)):
        skate.get(ref, timeout=60)

    @skate.remote(num_cpus=2)
    def everything():
        return "all CPUs are free"

    assert skate.get(everything.remote(), timeout=60) == "all CPUs are free"


@parallel
def test_an_async_call_is_cancelled(flag, tally):
    @skate.remote
    class Async:
        async def wait(self, started):
            try:
                started.set()
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                tally.add("cancelled")
                raise

        async def hello(self):
            return "hello"

    started = flag("started")
    actor = Async.remote()
    ref = actor.wait.remote(started)
    started.wait()
    skate.cancel(ref)
    with pytest.raises(Cancelled) as caught:
        skate.get(ref, timeout=60)
    assert isinstance(caught.value, skate.exceptions.RayTaskError)
    assert skate.get(actor.hello.remote()) == "hello"
    assert tally.words() == ["cancelled"]


def test_an_async_call_is_cancelled_before_its_first_step():
    @skate.remote
    class Other:
        async def nap(self):
            await asyncio.sleep(1000)

    @skate.remote
    class Hasty:
        async def cancel_what_it_calls(self, other):
            ref = other.nap.remote()
            skate.cancel(ref)
            return [ref]

    other = Other.remote()
    [ref] = skate.get(Hasty.remote().cancel_what_it_calls.remote(other))
    with pytest.raises(Cancelled):
        skate.get(ref, timeout=60)


@parallel
def test_an_async_call_that_ends_when_it_is_cancelled_has_no_value(flag):
    @skate.remote
    class Async:
        async def wait(self, started):
            started.set()
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                return "ended"

    started = flag("started")
    ref = Async.remote().wait.remote(started)
    started.wait()
    skate.cancel(ref)
    with pytest.raises(skate.exceptions.RayTaskError) as caught:
        skate.get(ref, timeout=60)
    assert isinstance(caught.value, Cancelled)


@parallel
@pytest.mark.differs_from_ray("Ray sometimes never answers the cancelled call")
def test_a_queued_call_of_an_actor_is_cancelled(flag):
    @skate.remote
    class Actor:
        def hold(self, flag):
            flag.wait()
            return "held"

        def hello(self):
            return "hello"

    go = flag("go")
    actor = Actor.remote()
    held, queued, last = actor.hold.remote(go), actor.hello.remote(), actor.hello.remote()
    skate.cancel(queued)
    with pytest.raises(Cancelled):
        skate.get(queued, timeout=60)  # while the first one runs: after it, the call might begin
    go.set()
    assert skate.get([held, last], timeout=60) == ["held", "hello"]


def test_an_actor_call_cannot_be_cancelled_by_force():
    @skate.remote
    class Actor:
        def hello(self):
            return "hello"

    actor = Actor.remote()
    with pytest.raises(ValueError, match="force"):
        skate.cancel(actor.hello.remote(), force=True)


@parallel
def test_a_call_that_ignores_its_cancellation_has_no_value(flag):
    @skate.remote(max_concurrency=2)
    class Stubborn:
        def run(self, started):
            started.set()
            while not skate.get_runtime_context().is_canceled():
                time.sleep(0.001)
            return "a value"

    started = flag("started")
    ref = Stubborn.remote().run.remote(started)
    started.wait()
    skate.cancel(ref)
    with pytest.raises(Cancelled):
        skate.get(ref, timeout=60)


class PlainCareful:
    """Notices its cancellation by itself, or where it waits."""

    def run(self, started, how):
        started.set()
        try:
            while not skate.get_runtime_context().is_canceled():
                time.sleep(0.001)
        except BaseException:
            return "interrupted"
        if how == "raise":
            raise ValueError("while tidying up")
        return "tidied up"

    def wait_for(self, started, refs, tally):
        started.set()
        try:
            return skate.get(refs)
        except KeyboardInterrupt:
            tally.add("interrupted")
            raise

    def count(self, started):
        started.set()
        for i in range(100_000):
            yield i
            time.sleep(0.001)

    def hello(self):
        return "hello"


@skate.remote
class Careful(PlainCareful):
    """Does so on an event loop."""

    async def never(self):
        await asyncio.Event().wait()


CONCURRENCY = [{"max_concurrency": 1}, {"max_concurrency": 2}]


def careful(options):
    return skate.remote(PlainCareful).options(**options).remote()


@parallel
@pytest.mark.parametrize("options", CONCURRENCY)
def test_a_running_method_tidies_up_and_has_no_value(flag, options):
    actor, started = careful(options), flag("started")
    ref = actor.run.remote(started, "return")
    started.wait()
    skate.cancel(ref)
    with pytest.raises(Cancelled):
        skate.get(ref, timeout=60)
    assert skate.get(actor.hello.remote(), timeout=60) == "hello"


@parallel
@pytest.mark.parametrize("options", CONCURRENCY)
def test_an_error_of_a_cancelled_method_is_told(flag, options):
    actor, started = careful(options), flag("started")
    ref = actor.run.remote(started, "raise")
    started.wait()
    skate.cancel(ref)
    with pytest.raises(ValueError, match="tidying"):
        skate.get(ref, timeout=60)


@parallel
@pytest.mark.parametrize("options", [*CONCURRENCY, "async"])
def test_a_cancelled_method_waits_no_longer(flag, tally, options):
    cls = Careful if options == "async" else skate.remote(PlainCareful).options(**options)
    actor, started = cls.remote(), flag("started")
    endless = Careful.remote().never.remote()
    for _ in range(2):
        ref = actor.wait_for.remote(started, [endless], tally)
        started.wait()
        skate.cancel(ref)
        with pytest.raises(Cancelled):
            skate.get(ref, timeout=60)
        os.unlink(started.path)
    assert tally.words() == ["interrupted"] * 2
    assert skate.get(actor.hello.remote(), timeout=60) == "hello"


@parallel
@pytest.mark.parametrize("options", CONCURRENCY)
def test_a_stream_of_a_method_is_cancelled(flag, options):
    actor = careful(options)
    stream = actor.count.remote(flag("started"))
    assert skate.get(next(stream), timeout=60) == 0
    skate.cancel(stream)
    with pytest.raises(Cancelled):
        skate.get(list(stream), timeout=60)
    assert skate.get(actor.hello.remote(), timeout=60) == "hello"


@parallel
def test_a_task_is_cancelled_by_force_before_its_process_is_up(flag):
    ref = spin.remote(flag("started"))
    skate.cancel(ref, force=True)
    with pytest.raises((Cancelled, skate.exceptions.WorkerCrashedError)):
        skate.get(ref, timeout=60)


@parallel
def test_a_cancelled_task_is_not_retried(flag, tally):
    @skate.remote(max_retries=5, retry_exceptions=True)
    def careful(started):
        tally.add()
        started.set()
        while True:
            time.sleep(0.001)

    started = flag("started")
    ref = careful.remote(started)
    started.wait()
    skate.cancel(ref)
    with pytest.raises(Cancelled):
        skate.get(ref, timeout=60)
    assert len(tally) == 1


@parallel
def test_a_stream_is_cancelled(flag):
    @skate.remote
    def endless():
        i = 0
        while True:
            yield i
            time.sleep(0.001)
            i += 1

    stream = endless.remote()
    assert skate.get(next(stream)) == 0
    skate.cancel(stream)
    with pytest.raises(Cancelled):
        skate.get(list(stream), timeout=60)


@parallel
def test_a_task_can_ask_whether_it_is_cancelled(flag):
    @skate.remote
    def ask():
        return skate.get_runtime_context().is_canceled()

    assert skate.get(ask.remote()) is False


@parallel
def test_what_an_async_method_makes_of_its_cancellation_does_not_count(flag):
    started = flag("started")

    @skate.remote
    class Actor:
        async def wait(self):
            started.set()
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                raise ValueError("something else") from None

    actor = Actor.remote()
    ref = actor.wait.remote()
    started.wait()
    skate.cancel(ref)
    with pytest.raises(skate.exceptions.TaskCancelledError):
        skate.get(ref, timeout=60)
