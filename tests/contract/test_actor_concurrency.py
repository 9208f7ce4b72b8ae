"""Actors that do several things at a time: threads, coroutines, groups."""

import asyncio
import decimal
import tempfile
import threading
import time
from pathlib import Path

import pytest

import skate
from tests.support import parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
class Meeting:
    """Everybody waits until the expected number is there."""

    def __init__(self, expected):
        self.barrier = threading.Barrier(expected)

    def meet(self):
        return self.barrier.wait(timeout=60) >= 0


@parallel
def test_threads():
    meeting = Meeting.options(max_concurrency=4).remote(4)
    assert skate.get([meeting.meet.remote() for _ in range(4)]) == [True] * 4


@parallel
def test_an_actor_runs_one_call_at_a_time_by_default():
    @skate.remote
    class Careful:
        def __init__(self):
            self.inside = 0

        def enter(self):
            self.inside += 1
            seen = self.inside
            threading.Event().wait(0.002)
            self.inside -= 1
            return seen

    careful = Careful.remote()
    assert set(skate.get([careful.enter.remote() for _ in range(20)])) == {1}


def test_async_methods():
    @skate.remote
    class Async:
        async def double(self, x):
            await asyncio.sleep(0)
            return 2 * x

        def plain(self):
            return "plain"

    actor = Async.remote()
    assert skate.get([actor.double.remote(i) for i in range(3)]) == [0, 2, 4]
    assert skate.get(actor.plain.remote()) == "plain"


def test_an_error_in_an_async_method():
    @skate.remote
    class Async:
        async def fail(self):
            raise ValueError("async failed")

        async def hello(self):
            return "hello"

    actor = Async.remote()
    with pytest.raises(ValueError, match="async failed"):
        skate.get(actor.fail.remote())
    assert skate.get(actor.hello.remote()) == "hello"


def test_async_methods_await_references():
    @skate.remote
    def task(x):
        return x + 1

    @skate.remote
    class Async:
        async def total(self, n):
            return sum(await asyncio.gather(*[task.remote(i) for i in range(n)]))

        async def boxed(self, box):
            return await box[0]

    actor = Async.remote()
    assert skate.get(actor.total.remote(3)) == 6
    assert skate.get(actor.boxed.remote([task.remote(1)])) == 2


@parallel
def test_async_methods_run_interleaved():
    @skate.remote
    class Event:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "woken"

        async def set(self):
            self.event.set()

    event = Event.remote()
    waiting = [event.wait.remote() for _ in range(50)]
    skate.get(event.set.remote())
    assert skate.get(waiting, timeout=60) == ["woken"] * 50


def test_an_async_method_goes_on_before_the_next_one_begins():
    """Those that a method has woken come before those that wait for its place."""

    @skate.remote(max_concurrency=2)
    class Pairs:
        def __init__(self):
            self.second = asyncio.Event()
            self.here = 0

        async def meet(self):
            self.here += 1
            if self.here == 2:
                self.second.set()
            else:
                await self.second.wait()
                self.second.clear()
                self.here = 0

    actor = Pairs.remote()
    skate.get([actor.meet.remote() for _ in range(8)], timeout=60)


@parallel
def test_async_methods_respect_max_concurrency():
    @skate.remote(max_concurrency=2)
    class Limited:
        def __init__(self):
            self.inside = self.most = 0

        async def enter(self):
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(0.005)
            self.inside -= 1
            return self.most

    limited = Limited.remote()
    assert max(skate.get([limited.enter.remote() for _ in range(10)])) == 2


@parallel
def test_an_async_actor_calls_itself():
    @skate.remote
    class Recursive:
        async def factorial(self, n):
            if n == 0:
                return 1
            me = skate.get_runtime_context().current_actor
            return n * await me.factorial.remote(n - 1)

    assert skate.get(Recursive.remote().factorial.remote(5)) == 120


@parallel
def test_an_actor_with_threads_calls_itself():
    @skate.remote(max_concurrency=2)
    class Recursive:
        def outer(self):
            return skate.get(skate.get_runtime_context().current_actor.inner.remote())

        def inner(self):
            return "inner"

    assert skate.get(Recursive.remote().outer.remote()) == "inner"


@pytest.mark.parametrize("groups", [{"io": 2}, {}, [], None])
def test_concurrency_groups_belong_to_the_class(groups):
    @skate.remote(concurrency_groups={"io": 1})
    class Grouped:
        @skate.method(concurrency_group="io")
        def group(self):
            return "io"

    with pytest.raises(ValueError, match="concurrency_groups"):
        Grouped.options(concurrency_groups=groups)
    assert skate.get(Grouped.options(num_cpus=0).remote().group.remote()) == "io"


@parallel
def test_concurrency_groups_do_not_wait_for_each_other(flag):
    @skate.remote(concurrency_groups={"io": 1, "compute": 2})
    class Grouped:
        @skate.method(concurrency_group="io")
        def hold(self, flag):
            flag.wait()
            return "released"

        @skate.method(concurrency_group="compute")
        def compute(self):
            return "computed"

        def plain(self):
            return "plain"

    go = flag("go")
    grouped = Grouped.remote()
    held = grouped.hold.remote(go)
    assert skate.get([grouped.compute.remote(), grouped.plain.remote()], timeout=60) == [
        "computed",
        "plain",
    ]
    also = grouped.compute.options(concurrency_group="io").remote()
    assert skate.wait([also], timeout=0.05) == ([], [also])
    go.set()
    assert skate.get([held, also], timeout=60) == ["released", "computed"]


@parallel
def test_concurrency_groups_of_async_methods():
    @skate.remote(concurrency_groups={"io": 2})
    class Grouped:
        def __init__(self):
            self.event = asyncio.Event()

        @skate.method(concurrency_group="io")
        async def wait(self):
            await self.event.wait()
            return "woken"

        @skate.method(concurrency_group="io")
        async def set(self):
            self.event.set()

        async def hello(self):
            return "hello"

    grouped = Grouped.remote()
    waiting = grouped.wait.remote()
    assert skate.get(grouped.hello.remote(), timeout=60) == "hello"
    skate.get(grouped.set.remote(), timeout=60)
    assert skate.get(waiting, timeout=60) == "woken"


class Plain:
    def hello(self):
        return "hello"

    def fail(self):
        raise ValueError("the real cause")

    def __repr__(self):
        return f"Plain({self.never_set})"


class Async:
    async def hello(self):
        return "hello"

    async def fail(self):
        raise ValueError("the real cause")

    def __repr__(self):
        return f"Async({self.never_set})"


every_kind = pytest.mark.parametrize(
    ("cls", "options"),
    [(Plain, {}), (Plain, {"max_concurrency": 2}), (Async, {})],
    ids=["sync", "threads", "async"],
)


@pytest.mark.differs_from_ray("Ray's worker ends of such a __repr__")
@every_kind
def test_an_actor_whose_repr_fails(cls, options):
    actor = skate.remote(cls).options(**options).remote()
    with pytest.raises(ValueError, match="the real cause"):
        skate.get(actor.fail.remote(), timeout=60)
    assert skate.get(actor.hello.remote(), timeout=60) == "hello"


@pytest.mark.differs_from_ray("Ray's worker ends of such a __repr__")
@every_kind
def test_an_unknown_concurrency_group_where_there_are_none(cls, options):
    actor = skate.remote(cls).options(**options).remote()
    with pytest.raises((ValueError, skate.exceptions.RayError)) as info:
        skate.get(actor.hello.options(concurrency_group="nowhere").remote(), timeout=60)
    assert not isinstance(info.value, TimeoutError)
    assert skate.get(actor.hello.remote(), timeout=60) == "hello"


@parallel
def test_an_async_group_that_blocks_leaves_the_others_alone(flag):
    @skate.remote(concurrency_groups={"slow": 1, "quick": 1})
    class Grouped:
        @skate.method(concurrency_group="slow")
        async def block(self, begun, go):
            begun.set()
            go.wait()  # without `await`: this loop stands still
            return threading.get_ident()

        @skate.method(concurrency_group="quick")
        def quick(self):
            return threading.get_ident()

        async def default(self):
            return threading.get_ident()

    actor = Grouped.remote()
    begun, go = flag("begun"), flag("go")
    blocked = actor.block.remote(begun, go)
    begun.wait()
    others = skate.get([actor.quick.remote(), actor.default.remote()], timeout=60)
    go.set()
    assert len({skate.get(blocked, timeout=60), *others}) == 3


def test_an_unknown_concurrency_group_is_an_error():
    @skate.remote(concurrency_groups={"io": 1})
    class Grouped:
        def hello(self):
            return "hello"

    grouped = Grouped.remote()
    with pytest.raises((ValueError, skate.exceptions.RayError)):
        skate.get(grouped.hello.options(concurrency_group="nowhere").remote(), timeout=60)


@parallel
def test_the_async_loop_is_not_blocked_by_slow_arguments(flag):
    @skate.remote
    def slow(flag):
        flag.wait()
        return "slow"

    @skate.remote
    class Async:
        async def echo(self, x):
            return x

    go = flag("go")
    actor = Async.remote()
    late = actor.echo.remote(slow.remote(go))
    other = actor.echo.remote("quick")
    go.set()
    assert skate.get([late, other], timeout=60) == ["slow", "quick"]


def test_an_async_constructor_sees_the_loop():
    @skate.remote
    class Async:
        def __init__(self):
            self.lock = asyncio.Lock()

        async def locked(self):
            async with self.lock:
                return "locked"

    actor = Async.remote()
    assert skate.get([actor.locked.remote(), actor.locked.remote()]) == ["locked", "locked"]


def test_async_context_variables_tell_calls_apart():
    @skate.remote
    class Async:
        async def task_id(self):
            before = skate.get_runtime_context().get_task_id()
            await asyncio.sleep(0.001)
            return before == skate.get_runtime_context().get_task_id()

    actor = Async.remote()
    assert all(skate.get([actor.task_id.remote() for _ in range(10)]))


@skate.remote
def one_more(x):
    return x + 1


@skate.remote(max_concurrency=2)
class Delegating:
    def ask(self, x):
        return skate.get(one_more.remote(x))

    def start(self, x):
        return [one_more.remote(x)]


def test_threads_of_an_actor_submit_tasks():
    actor = Delegating.remote()
    assert skate.get([actor.ask.remote(i) for i in range(4)], timeout=60) == [1, 2, 3, 4]
    (ref,) = skate.get(actor.start.remote(10))
    assert skate.get(ref, timeout=60) == 11


@parallel
def test_calls_do_not_begin_in_the_context_of_a_thread_that_waits():
    @skate.remote
    def opened(path):
        while not path.exists():
            time.sleep(0.01)

    @skate.remote
    class Asked:
        async def begin(self, path):
            self.thread = threading.Thread(target=self.wait, args=(path,))
            self.thread.start()

        def wait(self, path):
            decimal.getcontext().prec = 5  # of this thread, and a context variable
            skate.get(opened.remote(path))

        async def precision(self):
            return decimal.getcontext().prec

        async def end(self):
            await asyncio.to_thread(self.thread.join)

    asked = Asked.remote()
    usual = skate.get(asked.precision.remote())
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder) / "gate"
        skate.get(asked.begin.remote(gate))
        seen = [skate.get(asked.precision.remote()) for _ in range(20)]
        gate.touch()
        skate.get(asked.end.remote())
    assert set(seen) == {usual} != {5}


def test_a_constructor_may_be_async():
    @skate.remote
    class Greeter:
        async def __init__(self, name):
            await asyncio.sleep(0)
            self.name = name
            self.loop = asyncio.get_running_loop()

        def greet(self):
            return f"hello {self.name}"

        async def is_on_its_loop(self):
            return asyncio.get_running_loop() is self.loop

    greeter = Greeter.remote("Ada")
    assert skate.get(greeter.greet.remote()) == "hello Ada"
    assert skate.get(greeter.is_on_its_loop.remote())


def test_an_error_in_an_async_constructor_is_the_answer_to_every_call():
    @skate.remote
    class Broken:
        async def __init__(self):
            await asyncio.sleep(0)
            raise ValueError("no such port")

        def greet(self):
            return "hello"

    with pytest.raises(skate.exceptions.ActorDiedError, match="no such port"):
        skate.get(Broken.remote().greet.remote())


def test_a_call_that_an_actor_makes_of_itself_before_it_leaves_has_an_answer():
    @skate.remote
    class Keeper:
        def keep(self, refs):
            self.refs = refs

        def kept(self):
            return self.refs

    @skate.remote
    class Leaver:
        async def leave(self, keeper):
            me = skate.get_runtime_context().current_actor
            keeper.keep.remote([me.greet.remote()])
            skate.actor.exit_actor()

        async def greet(self):
            await asyncio.sleep(1000)

    keeper = Keeper.remote()
    with pytest.raises(skate.exceptions.ActorError):  # of Ray, that it is not there just now
        skate.get(Leaver.remote().leave.remote(keeper))
    [ref] = skate.get(keeper.kept.remote())
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(ref, timeout=60)
