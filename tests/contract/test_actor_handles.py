"""Handles: names, namespaces, where they can travel, and what happens when the last one goes."""

import atexit
import gc
import os

import pytest

import skate
from tests.support import PATIENCE, eventually, parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
class Counter:
    def __init__(self):
        self.value = 0

    def increment(self):
        self.value += 1
        return self.value


@skate.remote
def call(handle):
    return skate.get(handle.increment.remote())


# -- names ----------------------------------------------------------------------------------------


def exists(name):
    try:
        skate.get_actor(name)
    except ValueError:
        return False
    return True


def test_a_named_actor_is_found():
    actor = Counter.options(name="found").remote()
    skate.get(actor.increment.remote())
    assert skate.get(skate.get_actor("found").increment.remote()) == 2


def test_an_unknown_name_is_an_error():
    with pytest.raises(ValueError, match="nobody"):
        skate.get_actor("nobody")


def test_a_name_can_be_taken_only_once():
    actor = Counter.options(name="taken").remote()
    with pytest.raises(ValueError, match="taken"):
        Counter.options(name="taken").remote()
    assert skate.get(actor.increment.remote()) == 1


@pytest.mark.parametrize("name", ["", 5])
def test_a_name_is_a_text(name):
    with pytest.raises((ValueError, TypeError)):
        Counter.options(name=name).remote()


def test_get_if_exists():
    options = {"name": "shared", "get_if_exists": True}
    first = Counter.options(**options).remote()
    second = Counter.options(**options).remote()
    assert skate.get(first.increment.remote()) == 1
    assert skate.get(second.increment.remote()) == 2


def test_get_if_exists_needs_a_name():
    with pytest.raises(ValueError, match="name"):
        Counter.options(get_if_exists=True).remote()


def test_a_name_is_free_again_after_a_kill():
    actor = Counter.options(name="again").remote()
    skate.get(actor.increment.remote())
    skate.kill(actor)
    eventually(lambda: not exists("again"))
    other = Counter.options(name="again").remote()
    assert skate.get(other.increment.remote()) == 1


def test_a_named_actor_goes_with_its_last_handle():
    actor = Counter.options(name="short").remote()
    skate.get(actor.increment.remote())
    del actor
    gc.collect()
    eventually(lambda: not exists("short"))


def test_a_detached_actor_needs_no_handle():
    actor = Counter.options(name="detached", lifetime="detached").remote()
    skate.get(actor.increment.remote())
    del actor
    gc.collect()
    again = skate.get_actor("detached")
    assert skate.get(again.increment.remote()) == 2
    skate.kill(again)


def test_namespaces_keep_names_apart():
    here = Counter.options(name="one").remote()
    there = Counter.options(name="one", namespace="there").remote()
    skate.get([here.increment.remote(), there.increment.remote(), there.increment.remote()])
    assert skate.get(skate.get_actor("one").increment.remote()) == 2
    assert skate.get(skate.get_actor("one", namespace="there").increment.remote()) == 3


@parallel
@pytest.mark.differs_from_ray("Ray ends the actor with its creator's handle")
def test_a_handle_got_by_name_twice_keeps_the_actor_alive(flag):
    @skate.remote
    def user(ready, go):
        counter = skate.get_actor("twice")
        skate.get(counter.increment.remote())
        del counter
        counter = skate.get_actor("twice")
        ready.set()
        go.wait()
        return skate.get(counter.increment.remote(), timeout=60)

    ready, go = flag("ready"), flag("go")
    counter = Counter.options(name="twice", num_cpus=0).remote()
    result = user.remote(ready, go)
    ready.wait()
    del counter
    gc.collect()
    skate.get(skate.remote(lambda: None).remote())  # by now it is known that it is gone
    go.set()
    assert skate.get(result, timeout=60) == 2


@pytest.mark.parametrize(("wrong", "error"), [("", ValueError), (123, TypeError)])
def test_namespaces_have_names(wrong, error):
    with pytest.raises(error, match="namespace"):
        Counter.options(name="one", namespace=wrong)
    with pytest.raises(error, match="namespace"):
        skate.get_actor("one", namespace=wrong)


def test_the_list_of_names():
    keep = [Counter.options(name=name).remote() for name in ("a1", "a2")]
    keep.append(Counter.options(name="a3", namespace="elsewhere").remote())
    skate.get([actor.increment.remote() for actor in keep])
    assert sorted(skate.util.list_named_actors()) == ["a1", "a2"]
    everywhere = skate.util.list_named_actors(all_namespaces=True)
    assert {"namespace": "elsewhere", "name": "a3"} in everywhere
    assert {entry["name"] for entry in everywhere} == {"a1", "a2", "a3"}


def test_a_named_actor_is_found_inside_a_task():
    actor = Counter.options(name="inside").remote()
    skate.get(actor.increment.remote())

    @skate.remote
    def find():
        return skate.get(skate.get_actor("inside").increment.remote())

    assert skate.get(find.remote()) == 2


# -- travelling handles ---------------------------------------------------------------------------


def test_a_handle_as_an_argument():
    counter = Counter.remote()
    assert skate.get([call.remote(counter) for _ in range(3)]) in (
        [1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1],
    )  # fmt: skip


def test_a_handle_inside_structures_and_the_store():
    counter = Counter.remote()

    @skate.remote
    def call_boxed(box):
        return skate.get(box["handle"][0].increment.remote())

    assert skate.get(call_boxed.remote({"handle": [counter]})) == 1
    (back,) = skate.get(skate.put([counter]))
    assert skate.get(back.increment.remote()) == 2


def test_a_handle_in_a_closure():
    counter = Counter.remote()

    @skate.remote
    def use():
        return skate.get(counter.increment.remote())

    assert skate.get(use.remote()) == 1


def test_a_handle_returned_by_a_task():
    @skate.remote
    def make():
        return Counter.remote()

    counter = skate.get(make.remote())
    assert skate.get([counter.increment.remote(), counter.increment.remote()]) == [1, 2]


def test_a_handle_kept_by_another_actor():
    @skate.remote
    class Keeper:
        def keep(self, handle):
            self.handle = handle

        def call(self):
            return skate.get(self.handle.increment.remote())

    keeper, counter = Keeper.remote(), Counter.remote()
    skate.get(keeper.keep.remote(counter))
    del counter
    gc.collect()
    assert skate.get([keeper.call.remote(), keeper.call.remote()]) == [1, 2]


def test_handles_of_one_actor_are_equal():
    counter = Counter.options(name="equal").remote()
    again = skate.get_actor("equal")
    assert counter == again
    assert hash(counter) == hash(again)
    assert counter != Counter.remote()
    assert skate.get(skate.put([counter]))[0] == counter


def test_a_handle_names_its_class():
    counter = Counter.remote()
    assert "Counter" in repr(counter)
    assert len(counter._actor_id.hex()) == 32


def test_a_bound_method_can_be_kept():
    increment = Counter.remote().increment
    gc.collect()
    assert skate.get(increment.remote()) == 1
    assert skate.get(increment.remote()) == 2


# -- the last handle ------------------------------------------------------------------------------


def test_calls_already_made_run_even_when_the_handle_is_gone(tally):
    @skate.remote
    class Worker:
        def work(self, i):
            tally.add(i)
            return i

    refs = [Worker.remote().work.remote(i) for i in range(3)]
    gc.collect()
    assert skate.get(refs) == [0, 1, 2]


@parallel
def test_an_actor_ends_with_its_last_handle(flag):
    import psutil

    @skate.remote
    class Living:
        def pid(self):
            return os.getpid()

    actor = Living.remote()
    pid = skate.get(actor.pid.remote())
    assert psutil.pid_exists(pid)
    del actor
    gc.collect()
    eventually(lambda: gone(pid))


def gone(pid):
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@skate.remote(num_cpus=1)
class Link:
    """Holds handles of others."""

    def __init__(self, child=False, known=()):
        self.known = list(known)
        if child:
            me = skate.get_runtime_context().current_actor
            self.known.append(Link.remote(known=[me]))

    def add(self, *known):
        self.known += known

    def put(self, *known):
        self.known.append(skate.put(list(known)))

    def reach(self):
        return len(skate.get([other.__ray_ready__.remote() for other in self.known]))


def all_cpus_are_free():
    gc.collect()
    return skate.available_resources().get("CPU") == 2


@pytest.mark.parametrize("restarts", [0, -1])
def test_a_parent_whose_child_knows_it_ends(restarts):
    parent = Link.options(max_restarts=restarts).remote(child=True)
    assert skate.get(parent.reach.remote(), timeout=60) == 1
    del parent
    eventually(all_cpus_are_free)


@pytest.mark.differs_from_ray("Ray keeps actors that hold each other's handles")
@pytest.mark.parametrize("way", ["add", "put"])
def test_actors_that_know_each_other_end(way):
    one, two = Link.remote(), Link.remote()
    skate.get([getattr(one, way).remote(two), getattr(two, way).remote(one)], timeout=60)
    del one, two
    eventually(all_cpus_are_free)


@parallel
@pytest.mark.init(num_cpus=4)
def test_actors_that_know_each_other_live_while_one_can_be_reached(flag):
    one, two, three = Link.remote(), Link.remote(), Link.remote()
    skate.get([one.add.remote(two), two.add.remote(three), three.add.remote(one)], timeout=60)
    del one, three
    gc.collect()
    other = [Link.remote(child=True)]
    assert skate.get(other[0].reach.remote(), timeout=60) == 1
    other.clear()
    eventually(lambda: skate.available_resources().get("CPU") == 1)  # those two have ended
    assert skate.get(two.reach.remote(), timeout=60) == 1
    del two
    eventually(lambda: skate.available_resources().get("CPU") == 4)


@parallel
def test_a_handle_in_a_stored_value_keeps_the_actor_alive():
    counter = Counter.options(name="stored").remote()
    skate.get(counter.increment.remote())
    ref = skate.put([counter])
    del counter
    gc.collect()
    assert skate.get(skate.get(ref)[0].increment.remote()) == 2


class Plain:
    def begin(self, tally):
        atexit.register(tally.add, "cleaned")
        return os.getpid()


class Async:
    async def begin(self, tally):
        atexit.register(tally.add, "cleaned")
        return os.getpid()


@parallel
@pytest.mark.parametrize(
    ("cls", "options"),
    [(Plain, {}), (Plain, {"max_concurrency": 2}), (Async, {})],
    ids=["sync", "threads", "async"],
)
def test_every_kind_of_actor_ends_in_peace(cls, options, tally):
    for n in range(1, 4):
        actor = skate.remote(cls).options(num_cpus=0, **options).remote()
        pid = skate.get(actor.begin.remote(tally), timeout=60)
        del actor
        gc.collect()
        eventually(lambda pid=pid: gone(pid))
        assert len(tally) == n  # an actor that does not end by itself is killed in the end


def test_arguments_of_refused_calls_live_on():
    """What a call would have kept is not let go of by a call that never was."""

    @skate.remote
    class Kept:
        def ping(self):
            return "here"

    @skate.remote
    class Taker:
        def take(self, values):
            return len(values)

    kept, dead = Kept.remote(), Taker.remote()
    assert skate.get(dead.take.remote([1])) == 1
    skate.kill(dead)
    for _ in range(3):
        with pytest.raises(skate.exceptions.RayActorError):
            skate.get(dead.take.remote([kept]), timeout=PATIENCE)
    assert skate.get(kept.ping.remote(), timeout=PATIENCE) == "here"
