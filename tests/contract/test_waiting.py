"""wait, time-outs, and references in asyncio and concurrent.futures."""

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
import time

import pytest

import skate
from tests.support import parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def identity(x):
    return x


@skate.remote
def fail(text="bad"):
    raise ValueError(text)


@skate.remote
def hold(flag):
    flag.wait()
    return "released"


@pytest.fixture
def held(flag):
    """A reference that is not ready until the end of the test."""
    go = flag("held")
    ref = hold.remote(go)
    yield ref
    go.set()
    assert skate.get(ref) == "released"


# -- wait -----------------------------------------------------------------------------------------


def test_wait_for_one():
    refs = [skate.put(i) for i in range(3)]
    (ready,), pending = skate.wait(refs)
    assert pending == [ref for ref in refs if ref != ready]


def test_wait_for_all():
    refs = [identity.remote(i) for i in range(3)]
    assert skate.wait(refs, num_returns=3) == (refs, [])


@pytest.mark.differs_from_ray("Ray picks any")
def test_wait_takes_the_first_of_the_ready():
    refs = [skate.put(i) for i in range(5)]
    ready, pending = skate.wait(refs, num_returns=2)
    assert ready == refs[:2]
    assert pending == refs[2:]


def test_wait_counts_errors_as_ready():
    ref = fail.remote()
    assert skate.wait([ref], timeout=60) == ([ref], [])


def test_wait_for_nothing():
    assert skate.wait([]) == ([], [])


@pytest.mark.parametrize("arguments", [{"num_returns": 0}, {"num_returns": 2}, {"timeout": -1}])
def test_wait_refuses_numbers_that_make_no_sense(arguments):
    with pytest.raises(ValueError, match=r"num_returns|objects|timeout"):
        skate.wait([skate.put(1)], **arguments)


def test_wait_refuses_duplicates():
    ref = skate.put(1)
    with pytest.raises(ValueError, match=r"unique|twice|duplicate|more than once"):
        skate.wait([ref, ref])


@pytest.mark.parametrize("wrong", [5, None, [1], [None], "text"])
def test_wait_refuses_what_is_not_a_list_of_references(wrong):
    with pytest.raises(TypeError):
        skate.wait(wrong)


def test_wait_refuses_a_single_reference():
    with pytest.raises(TypeError):
        skate.wait(skate.put(1))


@parallel
def test_wait_keeps_the_order_given(held):
    done = [identity.remote(i) for i in range(3)]
    skate.get(done)
    ready, pending = skate.wait([done[2], held, done[0]], num_returns=2)
    assert ready == [done[2], done[0]]
    assert pending == [held]


@parallel
def test_wait_does_not_wait_with_no_time(held):
    started = time.monotonic()
    assert skate.wait([held], timeout=0) == ([], [held])
    assert time.monotonic() - started < 5


@parallel
def test_wait_gives_up_after_its_time(held):
    done = skate.put(1)
    assert skate.wait([held, done], num_returns=2, timeout=0.05) == ([done], [held])


@parallel
def test_wait_one_by_one(held):
    pending = [identity.remote(i) for i in range(30)]
    seen = []
    while pending:
        ready, pending = skate.wait(pending)
        seen += skate.get(ready)
    assert sorted(seen) == list(range(30))


@parallel
def test_wait_wakes_up_when_a_task_ends(flag):
    go = flag("go")
    ref = hold.remote(go)
    assert skate.wait([ref], timeout=0.05) == ([], [ref])
    go.set()
    assert skate.wait([ref], timeout=60) == ([ref], [])


# -- time-outs ------------------------------------------------------------------------------------


@parallel
@pytest.mark.parametrize("timeout", [0, 0.05])
def test_get_gives_up_after_its_time(held, timeout):
    with pytest.raises(skate.exceptions.GetTimeoutError):
        skate.get(held, timeout=timeout)


@parallel
def test_a_timeout_is_a_timeout_error(held):
    with pytest.raises(TimeoutError):
        skate.get([skate.put(1), held], timeout=0.01)


@skate.remote
class Never:
    async def answer(self, started=None):
        if started is not None:
            started.set()
        await asyncio.Event().wait()


@contextlib.contextmanager
def before_its_timeout():
    """A `get` that has waited for all of its 60 s finds the same error then."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 50


def test_get_does_not_wait_for_the_others_when_one_has_failed_already():
    failed = fail.remote("early")
    skate.wait([failed], timeout=60)
    slow = Never.remote()
    with before_its_timeout(), pytest.raises(ValueError, match="early"):
        skate.get([slow.answer.remote(), skate.put(1), failed], timeout=60)


def test_get_does_not_wait_for_the_others_when_one_fails():
    @skate.remote
    class Failing:
        async def later(self):
            await asyncio.sleep(0.05)
            raise ValueError("during the call")

    slow, failing = Never.remote(), Failing.remote()
    with before_its_timeout(), pytest.raises(ValueError, match="during the call"):
        skate.get([slow.answer.remote(), failing.later.remote()], timeout=60)


@parallel
def test_get_inside_a_task_does_not_wait_for_the_others_when_one_has_failed(flag):
    @skate.remote
    def collect(refs):
        skate.wait([refs[1]])
        began = time.monotonic()
        try:
            skate.get(refs, timeout=60)
        except ValueError as error:
            return str(error.cause), time.monotonic() - began < 50

    slow = Never.remote()
    refs = [slow.answer.remote(), fail.remote("seen inside")]
    assert skate.get(collect.remote(refs), timeout=120) == ("seen inside", True)


def test_get_with_no_time_finds_what_is_there():
    ref = skate.put(1)
    assert skate.get(ref, timeout=0) == 1


# -- asyncio and futures --------------------------------------------------------------------------


def test_await_a_reference():
    async def main():
        return await identity.remote(1) + await skate.put(2)

    assert asyncio.run(main()) == 3


def test_await_an_error():
    async def main():
        with pytest.raises(ValueError, match="bad"):
            await fail.remote()

    asyncio.run(main())


def test_gather():
    async def main():
        return await asyncio.gather(*[identity.remote(i) for i in range(5)])

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_asyncio_wait_and_as_completed():
    async def main():
        futures = [asyncio.ensure_future(wrap(identity.remote(i))) for i in range(3)]
        return {await f for f in asyncio.as_completed(futures)}

    async def wrap(ref):
        return await ref

    assert asyncio.run(main()) == {0, 1, 2}


def test_wrap_future():
    async def main():
        return await asyncio.wrap_future(identity.remote("w").future())

    assert asyncio.run(main()) == "w"


def test_the_same_reference_awaited_twice():
    async def main():
        ref = identity.remote(1)
        return await ref, await ref

    assert asyncio.run(main()) == (1, 1)


@parallel
def test_an_await_can_time_out(held):
    async def main():
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):
            await asyncio.wait_for(held, timeout=0.05)
        return await identity.remote("still works")

    assert asyncio.run(main()) == "still works"


@parallel
def test_the_loop_goes_on_while_a_reference_is_awaited(flag):
    go = flag("go")

    async def main():
        ref = hold.remote(go)
        waiting = asyncio.ensure_future(wrap(ref))
        await asyncio.sleep(0)
        go.set()
        return await waiting

    async def wrap(ref):
        return await ref

    assert asyncio.run(main()) == "released"


def test_a_future_for_a_loop_that_runs_later():
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        futures = [identity.remote(i).as_future() for i in range(3)]
        assert loop.run_until_complete(asyncio.gather(*futures)) == [0, 1, 2]
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_a_future_of_the_value():
    future = identity.remote(7).future()
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(timeout=60) == 7


def test_a_future_of_an_error():
    future = fail.remote("in the future").future()
    with pytest.raises(ValueError, match="in the future"):
        future.result(timeout=60)


def test_a_future_keeps_its_value_when_the_reference_is_gone():
    futures = [identity.remote(i).future() for i in range(10)]
    concurrent.futures.wait(futures, timeout=60)
    assert [f.result() for f in futures] == list(range(10))


def test_a_callback_gets_the_value_or_the_error():
    answers = queue.SimpleQueue()
    refs = [identity.remote("done"), fail.remote("failed")]
    for ref in refs:
        ref._on_completed(answers.put)
    both = {
        str(getattr(a, "cause", a)) for a in (answers.get(timeout=60), answers.get(timeout=60))
    }
    assert both == {"done", "failed"}


def test_references_can_be_awaited_inside_a_task():
    @skate.remote
    def inner():
        async def main():
            return await identity.remote("inside")

        return asyncio.run(main())

    assert skate.get(inner.remote()) == "inside"


@parallel
@pytest.mark.differs_from_ray("Ray runs callbacks on the thread that brings the answers")
def test_a_callback_of_a_future_may_wait_for_a_task(flag):
    def ask(future):
        answers.put(skate.get(identity.remote(f"{future.result()} and asked"), timeout=60))

    answers = queue.Queue()
    go = flag("go")
    hold.remote(go).future().add_done_callback(ask)
    go.set()
    assert answers.get(timeout=60) == "released and asked"
    assert skate.get(identity.remote("usable"), timeout=60) == "usable"


@parallel
@pytest.mark.differs_from_ray("Ray counts milliseconds in 64 bits")
@pytest.mark.parametrize("timeout", [1e7, 1e30, float("inf")])
def test_very_long_timeouts(flag, timeout):
    go = flag("go")
    refs = [hold.remote(go) for _ in range(2)]
    timer = threading.Timer(0.05, go.set)
    timer.start()
    assert skate.get(refs[0], timeout=timeout) == "released"
    assert skate.wait(refs, num_returns=2, timeout=timeout)[1] == []
    timer.join()
