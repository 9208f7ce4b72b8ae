"""Counts beyond all reason: refused at once, or they work."""

import pytest

import skate

pytestmark = pytest.mark.usefixtures("engine")

HUGE = 2**70


@skate.remote
def identity(x):
    return x


@skate.remote
class Actor:
    def hello(self):
        return "hello"


@skate.remote
class AsyncActor:
    async def hello(self):
        return "hello"


@pytest.mark.differs_from_ray("Ray has no limit of its own, and 32 bits")
@pytest.mark.parametrize("count", [65_536, HUGE])
def test_more_return_values_than_there_are_ids_for(count):
    with pytest.raises(ValueError, match=r"65,535.*streaming"):
        identity.options(num_returns=count)
    with pytest.raises(ValueError, match=r"65,535.*streaming"):
        skate.method(num_returns=count)


def test_as_many_return_values_as_there_are_ids_for():
    many = skate.remote(lambda n: range(n)).options(num_returns=65_535)
    first, second = many.remote(65_535), many.remote(65_535)
    after = identity.remote("after")
    assert skate.get([first[-1], second[0], second[-1]], timeout=60) == [65_534, 0, 65_534]
    assert skate.get(after, timeout=60) == "after"


@pytest.mark.differs_from_ray("Ray waits for a machine that has so much")
@pytest.mark.parametrize("resource", ["num_cpus", "num_gpus", "memory"])
def test_resources_that_no_machine_has(resource):
    with pytest.raises(ValueError, match=resource):
        identity.options(**{resource: HUGE})
    with pytest.raises(skate.exceptions.TaskUnschedulableError):
        skate.get(identity.options(**{resource: 2**53}).remote(1), timeout=60)


@pytest.mark.differs_from_ray("Ray's counts have 32 or 64 bits")
def test_retries_and_restarts_that_never_end():
    assert skate.get(identity.options(max_retries=HUGE).remote(1), timeout=60) == 1
    options = {"max_restarts": HUGE, "max_task_retries": HUGE, "max_pending_calls": HUGE}
    assert skate.get(Actor.options(**options).remote().hello.remote(), timeout=60) == "hello"


@pytest.mark.differs_from_ray("Ray starts all threads at once")
@pytest.mark.parametrize("cls", [Actor, AsyncActor])
def test_calls_at_a_time_without_bounds(cls):
    concurrent = cls.options(max_concurrency=HUGE).remote()
    assert skate.get([concurrent.hello.remote() for _ in range(3)], timeout=60) == ["hello"] * 3
    grouped = skate.remote(concurrency_groups={"io": HUGE})(cls._cls).remote()
    call = grouped.hello.options(concurrency_group="io")
    assert skate.get(call.remote(), timeout=60) == "hello"


def test_wait_for_more_than_there_are():
    with pytest.raises(ValueError, match=r"num_returns|objects"):
        skate.wait([skate.put(1)], num_returns=HUGE)


def test_a_pool_of_more_processes_than_a_machine_can_have():
    with pytest.raises(ValueError, match="processes"):
        skate.util.multiprocessing.Pool(processes=HUGE)
    with skate.util.multiprocessing.Pool(processes=1) as pool:
        assert pool.map(abs, [-1, -2], chunksize=HUGE) == [1, 2]


@pytest.mark.differs_from_ray("Ray's arguments of init are not checked like this")
@pytest.mark.parametrize("arguments", [{"num_gpus": HUGE}, {"num_cpus": 1e308}])
def test_a_machine_that_cannot_be(arguments):
    skate.shutdown()
    with pytest.raises(ValueError, match=next(iter(arguments))):
        skate.init(**arguments)
