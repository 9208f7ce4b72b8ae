"""Not small any more: many tasks, many references, deep nesting."""

# ruff: noqa: UP028 (Ray cannot stream a `yield from`)

import time

import pytest

import skate
from tests.support import parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def identity(x):
    return x


def test_two_thousand_tasks():
    refs = [identity.remote(i) for i in range(2_000)]
    assert skate.get(refs) == list(range(2_000))


def test_a_thousand_references_in_one_argument():
    @skate.remote
    def total(refs):
        return sum(skate.get(refs))

    assert skate.get(total.remote([skate.put(i) for i in range(1_000)])) == 499_500


def test_a_thousand_references_as_arguments():
    @skate.remote
    def total(*values):
        return sum(values)

    assert skate.get(total.remote(*[skate.put(i) for i in range(1_000)])) == 499_500


def test_a_thousand_results():
    @skate.remote(num_returns=1_000)
    def many():
        return range(1_000)

    assert skate.get(many.remote()) == list(range(1_000))


def test_a_thousand_calls_of_one_actor():
    @skate.remote
    class Counter:
        value = 0

        def increment(self):
            self.value += 1
            return self.value

    counter = Counter.remote()
    assert skate.get([counter.increment.remote() for _ in range(1_000)]) == list(range(1, 1_001))


def test_a_stream_of_a_thousand():
    @skate.remote
    def stream():
        for i in range(1_000):
            yield i

    assert sum(skate.get(ref) for ref in stream.remote()) == 499_500


def test_a_chain_of_two_hundred():
    ref = skate.put(0)

    @skate.remote
    def add(x):
        return x + 1

    for _ in range(200):
        ref = add.remote(ref)
    assert skate.get(ref) == 200


@pytest.mark.differs_from_ray("a depth of 20 takes Ray half a minute")
def test_nesting_twenty_deep():
    @skate.remote
    def nest(depth):
        return 0 if depth == 0 else 1 + skate.get(nest.remote(depth - 1))

    assert skate.get(nest.remote(20), timeout=60) == 20


@parallel
def test_wait_over_many_tasks_one_by_one():
    pending = [identity.remote(i) for i in range(300)]
    seen = 0
    while pending:
        ready, pending = skate.wait(pending)
        seen += len(ready)
    assert seen == 300


@pytest.mark.differs_from_ray("20 actors take Ray half a minute")
def test_twenty_actors():
    @skate.remote
    class Actor:
        def __init__(self, i):
            self.i = i

        def get(self):
            return self.i

    actors = [Actor.remote(i) for i in range(20)]
    assert skate.get([actor.get.remote() for actor in actors]) == list(range(20))


@parallel
@pytest.mark.differs_from_ray("Ray takes its time")
def test_cancelling_many_pending_tasks_takes_time_in_proportion(flag):
    @skate.remote(num_cpus=2)
    def hold(flag):
        flag.wait()

    def cancel(count):
        """CPU time of this process per task."""
        refs = [identity.remote(i) for i in range(count)]
        start = time.process_time()
        for ref in refs:
            skate.cancel(ref)
        spent = time.process_time() - start
        for ref in refs:
            with pytest.raises(skate.exceptions.TaskCancelledError):
                skate.get(ref, timeout=60)
        return spent / count

    go = flag("go")
    held = hold.remote(go)
    # Ten times as much each, if all were looked at each time. One measurement may be disturbed.
    assert any(cancel(10_000) < 5 * max(cancel(1_000), 5e-6) for _ in range(5))
    go.set()
    skate.get(held)


@parallel
@pytest.mark.differs_from_ray("Ray takes its time")
def test_cancelling_what_is_on_its_way_between_workers():
    skate.get([identity.remote(i) for i in range(200)])
    for _ in range(30):
        refs = [identity.remote(i) for i in range(150)]
        for ref in refs:
            skate.cancel(ref)
        for i, ref in enumerate(refs):
            try:
                assert skate.get(ref, timeout=60) == i
            except skate.exceptions.TaskCancelledError:
                pass
