"""Tasks that yield: dynamic and streaming results."""

# ruff: noqa: UP028 (Ray cannot stream a `yield from`)

import asyncio
import time

import pytest

import skate
from tests.support import eventually, parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def count(n):
    for i in range(n):
        yield i


@skate.remote(max_retries=0)
def break_after(n):
    for i in range(n):
        yield i
    raise ValueError("broken in the middle")


def values(generator):
    return [skate.get(ref) for ref in generator]


def test_a_generator_function_streams():
    stream = count.remote(3)
    assert isinstance(stream, skate.ObjectRefGenerator)
    assert values(stream) == [0, 1, 2]


@pytest.mark.differs_from_ray("Ray calls send() on what is yielded from")
def test_a_generator_that_delegates():
    @skate.remote
    def delegate():
        yield from range(3)

    assert values(delegate.remote()) == [0, 1, 2]


def test_streaming_by_name():
    @skate.remote(num_returns="streaming")
    def letters():
        yield "a"
        yield "b"

    assert values(letters.remote()) == ["a", "b"]


def test_each_item_is_a_reference():
    stream = count.remote(1)
    assert isinstance(next(stream), skate.ObjectRef)


def test_an_empty_stream():
    assert values(count.remote(0)) == []


@pytest.mark.differs_from_ray("Ray starts to return empty references")
def test_a_stream_ends_and_stays_ended():
    stream = count.remote(1)
    next(stream)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(stream)


def test_items_outlive_the_stream():
    refs = list(count.remote(3))
    assert skate.get(refs) == [0, 1, 2]


def test_a_stream_of_large_items():
    @skate.remote
    def blocks():
        for i in range(5):
            yield bytes([i]) * 1_000_000

    assert [block[0] for block in values(blocks.remote())] == [0, 1, 2, 3, 4]


def test_an_error_in_the_middle_comes_after_the_items_before_it():
    stream = break_after.remote(2)
    assert skate.get(next(stream)) == 0
    assert skate.get(next(stream)) == 1
    with pytest.raises(ValueError, match="broken in the middle"):
        skate.get(next(stream))
    with pytest.raises(StopIteration):
        next(stream)


def test_an_error_before_the_first_item():
    with pytest.raises(ValueError, match="broken"):
        values(break_after.remote(0))


def test_an_error_is_told_by_the_last_item_only():
    stream = break_after.remote(1)
    assert skate.get(stream.completed()) is None
    assert skate.get(next(stream)) == 0
    with pytest.raises(ValueError, match="broken"):
        skate.get(next(stream))


@pytest.mark.engines("local", "ray")
def test_the_end_of_a_cancelled_stream_is_that_error():
    @skate.remote
    def endless():
        while True:
            yield 1
            time.sleep(0.05)

    stream = endless.remote()
    assert skate.get(next(stream), timeout=60) == 1
    skate.cancel(stream)
    with pytest.raises(skate.exceptions.TaskCancelledError):
        skate.get(stream.completed(), timeout=60)


def test_the_end_of_a_stream_can_be_waited_for():
    stream = count.remote(2)
    skate.get(stream.completed())
    assert values(stream) == [0, 1]


def test_a_stream_knows_when_it_is_finished():
    stream = count.remote(2)
    assert not stream.is_finished()
    values(stream)
    eventually(stream.is_finished)


def test_a_stream_knows_when_the_next_item_is_there():
    stream = count.remote(1)
    eventually(stream.next_ready)
    assert skate.get(next(stream)) == 0
    eventually(stream.is_finished)
    assert not stream.next_ready()


def test_asynchronous_iteration():
    async def main():
        return [await ref async for ref in count.remote(3)]

    assert asyncio.run(main()) == [0, 1, 2]


@parallel
def test_a_stream_that_awaits_nothing_leaves_its_actor_to_others(tally):
    @skate.remote
    class Talker:
        async def count(self):
            number = 0
            try:
                while True:
                    yield number
                    number += 1
            finally:
                tally.add("closed")

        async def hello(self):
            return "hello"

    actor = Talker.remote()
    stream = actor.count.remote()
    assert skate.get(next(stream)) == 0
    assert skate.get(actor.hello.remote(), timeout=60) == "hello"
    skate.cancel(stream)
    with pytest.raises(skate.exceptions.TaskCancelledError):
        skate.get(list(stream), timeout=60)
    eventually(lambda: tally.words() == ["closed"])
    assert skate.get(actor.hello.remote(), timeout=60) == "hello"


def test_an_error_in_asynchronous_iteration():
    async def main():
        seen = []
        async for ref in break_after.remote(1):
            try:
                seen.append(await ref)
            except ValueError as error:
                seen.append(str(error.cause))
        return seen

    assert asyncio.run(main()) == [0, "broken in the middle"]


def test_items_can_be_arguments_of_other_tasks():
    @skate.remote
    def double(x):
        return 2 * x

    assert skate.get([double.remote(ref) for ref in count.remote(3)]) == [0, 2, 4]


def test_wait_takes_a_stream():
    stream = count.remote(2)
    ready, pending = skate.wait([stream], timeout=60)
    assert ready == [stream]
    assert pending == []
    assert skate.get(next(stream)) == 0


def test_a_stream_consumed_inside_a_task():
    @skate.remote
    def total(n):
        return sum(skate.get(ref) for ref in count.remote(n))

    assert skate.get(total.remote(4)) == 6


@parallel
def test_items_come_while_the_task_is_still_running(flag):
    go = flag("go")

    @skate.remote
    def slow():
        yield 1
        go.wait()
        yield 2

    stream = slow.remote()
    assert skate.get(next(stream)) == 1
    assert not stream.next_ready()
    assert stream._next_sync(timeout_s=0.01).is_nil()
    go.set()
    second = stream._next_sync(timeout_s=60)
    assert not second.is_nil()
    assert skate.get(second) == 2


@parallel
def test_backpressure_holds_the_task_back(tally):
    @skate.remote(_generator_backpressure_num_objects=2)
    def eager():
        for i in range(20):
            tally.add()
            yield i

    stream = eager.remote()
    taken = 0
    for ref in stream:
        taken += 1
        assert skate.get(ref) == taken - 1
        assert len(tally) <= taken + 3
    assert taken == 20


@parallel
@pytest.mark.differs_from_ray("Ray lets the task wait for ever")
def test_a_dropped_stream_does_not_block_what_comes_after(tally):
    @skate.remote(_generator_backpressure_num_objects=1)
    def endless():
        while True:
            yield tally.add()

    @skate.remote(num_cpus=2)
    def everything():
        return "ran"

    stream = endless.remote()
    assert skate.get(next(stream)) == 1
    del stream
    assert skate.get(everything.remote(), timeout=60) == "ran"


@parallel
@pytest.mark.differs_from_ray("Ray lets the task run for ever")
def test_a_stream_dropped_while_its_task_waits_takes_no_cpu(flag):
    @skate.remote(num_cpus=2)
    def hold(flag):
        flag.wait()

    @skate.remote
    def endless():
        while True:
            yield time.sleep(0.01)

    @skate.remote(num_cpus=2)
    def everything():
        return "ran"

    go = flag("go")
    held = hold.remote(go)
    stream = endless.remote()
    del stream
    go.set()
    skate.get(held, timeout=60)
    assert skate.get(everything.remote(), timeout=60) == "ran"


@pytest.mark.differs_from_ray("Ray's close() changes nothing")
def test_a_closed_stream_gives_no_more():
    stream = count.remote(1000)
    next(stream)
    stream.close()
    stream.close()
    with pytest.raises(StopIteration):
        next(stream)
    assert not stream.next_ready()
    assert stream.is_finished()


def test_dynamic_results_are_references_in_a_reference():
    ref = count.options(num_returns="dynamic").remote(3)
    assert isinstance(ref, skate.ObjectRef)
    assert values(skate.get(ref)) == [0, 1, 2]


def test_dynamic_results_have_a_length():
    assert len(skate.get(count.options(num_returns="dynamic").remote(4))) == 4


def test_an_error_among_dynamic_results():
    generator = skate.get(break_after.options(num_returns="dynamic").remote(2))
    refs = list(generator)
    assert skate.get(refs[:2]) == [0, 1]
    with pytest.raises(ValueError, match="broken"):
        skate.get(refs[2])


def test_a_fixed_number_of_results_from_a_generator():
    assert skate.get(count.options(num_returns=3).remote(3)) == [0, 1, 2]
    assert skate.get(count.options(num_returns=1).remote(1)) == 0


def test_a_generator_may_have_more_than_the_fixed_number():
    assert skate.get(count.options(num_returns=3).remote(5)) == [0, 1, 2]


def test_a_generator_that_has_less_than_the_fixed_number():
    first, second, third = count.options(num_returns=3).remote(2)
    assert skate.get([first, second]) == [0, 1]
    with pytest.raises(ValueError, match="3"):
        skate.get(third)


def test_values_before_an_error_stay_valid():
    first, *rest = break_after.options(num_returns=3).remote(1)
    assert skate.get(first) == 0
    for ref in rest:
        with pytest.raises(ValueError, match="broken"):
            skate.get(ref)


def test_a_fixed_number_of_results_from_a_method():
    @skate.remote
    class Source:
        def items(self, n):
            yield from range(n)

    source = Source.remote()
    assert skate.get(source.items.options(num_returns=2).remote(4)) == [0, 1]
    assert skate.get(source.items.options(num_returns=1).remote(1)) == 0


@pytest.mark.parametrize("num_returns", [2, "dynamic"])
def test_a_generator_is_retried_after_an_error(num_returns, tally):
    @skate.remote(max_retries=1, retry_exceptions=[KeyError])
    def fail_once():
        yield 0
        if tally.add() == 1:
            raise KeyError("first")
        yield 1

    made = fail_once.options(num_returns=num_returns).remote()
    refs = made if num_returns == 2 else skate.get(made)
    assert values(refs) == [0, 1]
    assert len(tally) == 2


def test_wait_without_a_timeout_to_spare_sees_what_is_there():
    stream = count.remote(2)
    for expected in range(2):
        skate.wait([stream])
        assert skate.wait([stream], timeout=0) == ([stream], [])
        assert skate.get(next(stream)) == expected
    skate.wait([stream])
    assert skate.wait([stream], timeout=0) == ([stream], []), "the end is news as well"
    assert next(stream, None) is None


@parallel
def test_wait_takes_streams_and_references_together(flag):
    go = flag("go")

    @skate.remote
    def after_the_flag():
        go.wait()

    pending, stream = after_the_flag.remote(), count.remote(1)
    assert skate.wait([pending, stream]) == ([stream], [pending])
    go.set()
    assert skate.wait([pending, stream], num_returns=2) == ([pending, stream], [])


def test_a_task_can_wait_for_a_stream():
    @skate.remote
    def total():
        stream, seen = count.remote(3), []
        while True:
            skate.wait([stream])
            ref = next(stream, None)
            if ref is None:
                return seen
            seen.append(skate.get(ref))

    assert skate.get(total.remote()) == [0, 1, 2]
