"""How actors end and begin again: kill, exit, restarts, limits on calls."""

import asyncio
import gc
import os
import signal

import pytest

import skate
from tests.support import PATIENCE, eventually, parallel

pytestmark = pytest.mark.usefixtures("engine")

ActorError = skate.exceptions.RayActorError


@skate.remote
class Counter:
    def __init__(self):
        self.value = 0

    def increment(self):
        self.value += 1
        return self.value

    def pid(self):
        return os.getpid()

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def exit(self):
        skate.actor.exit_actor()

    def hold(self, flag):
        flag.wait()


def alive(actor):
    try:
        skate.get(actor.increment.remote())
    except ActorError:
        return False
    return True


def pid_of(actor):
    try:
        return skate.get(actor.pid.remote())
    except ActorError:
        return None


# -- kill -----------------------------------------------------------------------------------------


def test_a_killed_actor_answers_no_more():
    counter = Counter.remote()
    assert skate.get(counter.increment.remote()) == 1
    skate.kill(counter)
    eventually(lambda: not alive(counter))
    with pytest.raises(ActorError):
        skate.get(counter.increment.remote())


def test_an_actor_can_be_killed_twice():
    counter = Counter.remote()
    skate.get(counter.increment.remote())
    skate.kill(counter)
    skate.kill(counter)


@pytest.mark.parametrize("thing", [5, None, "name"])
def test_only_actors_can_be_killed(thing):
    with pytest.raises((ValueError, TypeError)):
        skate.kill(thing)


def test_a_reference_cannot_be_killed():
    with pytest.raises((ValueError, TypeError)):
        skate.kill(skate.put(1))


@parallel
def test_calls_under_way_and_queued_fail_when_the_actor_is_killed(flag):
    counter, go = Counter.remote(), flag("never")
    skate.get(counter.increment.remote())
    running = counter.hold.remote(go)
    queued = [counter.increment.remote() for _ in range(3)]
    skate.kill(counter)
    for ref in [running, *queued]:
        with pytest.raises(ActorError):
            skate.get(ref, timeout=60)


@parallel
def test_a_killed_actor_restarts_if_it_may():
    counter = Counter.options(max_restarts=1).remote()
    assert skate.get(counter.increment.remote()) == 1
    first = skate.get(counter.pid.remote())
    skate.kill(counter, no_restart=False)
    eventually(lambda: pid_of(counter) not in (None, first))


@parallel
def test_kill_without_restart_is_final_by_default():
    counter = Counter.options(max_restarts=-1).remote()
    skate.get(counter.increment.remote())
    skate.kill(counter)
    eventually(lambda: not alive(counter))


def test_a_killed_actor_can_be_the_argument_of_a_call():
    counter = Counter.remote()
    skate.get(counter.increment.remote())
    skate.kill(counter)

    @skate.remote
    def ask(handle):
        try:
            return skate.get(handle.increment.remote())
        except ActorError:
            return "dead"

    eventually(lambda: not alive(counter))
    assert skate.get(ask.remote(counter)) == "dead"


# -- going by itself ------------------------------------------------------------------------------


def test_terminate_lets_earlier_calls_finish():
    counter = Counter.remote()
    refs = [counter.increment.remote() for _ in range(3)]
    last = counter.__ray_terminate__.remote()
    assert skate.get(refs) == [1, 2, 3]
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(last)
    eventually(lambda: not alive(counter))


def test_exit_actor_ends_the_actor():
    counter = Counter.options(max_restarts=-1).remote()
    assert skate.get(counter.increment.remote()) == 1
    with pytest.raises(ActorError):
        skate.get(counter.exit.remote())
    eventually(lambda: not alive(counter))


def test_exit_actor_in_an_async_actor():
    @skate.remote
    class Quitter:
        async def quit(self):
            skate.actor.exit_actor()

        async def hello(self):
            return "hello"

    quitter = Quitter.remote()
    assert skate.get(quitter.hello.remote()) == "hello"
    with pytest.raises(ActorError):
        skate.get(quitter.quit.remote())


@pytest.mark.differs_from_ray("Ray leaves the other calls unanswered")
def test_exit_actor_fails_the_calls_under_way():
    @skate.remote(runtime_env={"env_vars": {"SKATE_ACTOR_EXIT_SECONDS": "0.1"}})
    class Quitter:
        async def quit(self):
            skate.actor.exit_actor()

        async def sleep(self):
            await asyncio.sleep(1000)

    quitter = Quitter.remote()
    asleep = quitter.sleep.remote()
    quitter.quit.remote()
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(asleep, timeout=PATIENCE)


def test_a_stream_ends_with_its_actor():
    @skate.remote
    class Quitter:
        def quit_after_one(self):
            yield 1
            skate.actor.exit_actor()

    quitter = Quitter.remote()
    first, last = quitter.quit_after_one.remote()
    assert skate.get(first) == 1
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(last)


@pytest.mark.parametrize("end", ["drop", "exit", "terminate"])
def test_an_actor_cleans_up_at_an_end_that_was_asked_for(tally, end):
    @skate.remote
    class Tidy:
        def hello(self):
            return "hello"

        def exit(self):
            skate.actor.exit_actor()

        def __ray_shutdown__(self):
            tally.add("shutdown")

        def __del__(self):
            tally.add("del")

    tidy = Tidy.remote()
    assert skate.get(tidy.hello.remote()) == "hello"
    if end == "exit":
        tidy.exit.remote()
    elif end == "terminate":
        tidy.__ray_terminate__.remote()
    else:
        del tidy
    gc.collect()
    eventually(lambda: tally.words() == ["shutdown", "del"])


def test_an_actor_killed_before_it_has_begun():
    counter = Counter.remote()
    skate.kill(counter)
    with pytest.raises(ActorError):
        skate.get(counter.increment.remote(), timeout=PATIENCE)


@parallel
def test_a_handle_to_itself_does_not_keep_an_actor_alive():
    @skate.remote
    class Narcissus:
        def __init__(self):
            self.me = skate.get_runtime_context().current_actor

        def hello(self):
            return "hello"

    def named():
        return [name for name in skate.util.list_named_actors() if name == "narcissus"]

    narcissus = Narcissus.options(name="narcissus").remote()
    assert skate.get(narcissus.hello.remote()) == "hello"
    assert named()
    del narcissus
    gc.collect()
    eventually(lambda: not named())


def test_exit_actor_outside_an_actor_is_an_error():
    with pytest.raises(TypeError):
        skate.actor.exit_actor()


# -- restarts -------------------------------------------------------------------------------------


@parallel
def test_a_died_actor_is_an_error_by_default():
    counter = Counter.remote()
    skate.get(counter.increment.remote())
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(counter.die.remote())
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(counter.increment.remote())


@skate.remote
class Creator:
    def create(self, **options):
        self.child = Counter.options(max_restarts=-1, num_cpus=0, **options).remote()
        skate.get(self.child.increment.remote())
        return self.child

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def vanish(self):
        os._exit(0)


@parallel
@pytest.mark.parametrize("end", ["die", "vanish"])
def test_an_actor_ends_with_its_creator_that_was_killed(end):
    creator = Creator.options(max_restarts=1).remote()
    child = skate.get(creator.create.remote())
    skate.get(child.increment.remote())
    with pytest.raises(ActorError):
        skate.get(getattr(creator, end).remote())
    eventually(lambda: not alive(child))
    with pytest.raises(ActorError, match="owner has died"):
        skate.get(child.increment.remote())


@parallel
def test_a_detached_actor_outlives_its_creator():
    creator = Creator.remote()
    child = skate.get(creator.create.remote(name="outlives", lifetime="detached"))
    with pytest.raises(ActorError):
        skate.get(creator.die.remote())
    assert skate.get(child.increment.remote(), timeout=PATIENCE) == 2
    skate.kill(child)


@parallel
def test_a_died_actor_restarts_with_a_fresh_state():
    counter = Counter.options(max_restarts=1).remote()
    assert skate.get([counter.increment.remote(), counter.increment.remote()]) == [1, 2]
    with pytest.raises(ActorError):
        skate.get(counter.die.remote())
    eventually(lambda: alive(counter))
    assert skate.get(counter.increment.remote()) == 2


@parallel
def test_restarts_come_to_an_end():
    counter = Counter.options(max_restarts=1).remote()
    skate.get(counter.increment.remote())
    for _ in range(2):
        with pytest.raises(ActorError):
            skate.get(counter.die.remote())
        eventually(lambda: alive(counter) or died(counter))
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(counter.increment.remote())


def died(actor):
    try:
        skate.get(actor.increment.remote())
    except skate.exceptions.ActorDiedError:
        return True
    except ActorError:
        return False
    return False


@parallel
@pytest.mark.differs_from_ray("Ray loses references inside the arguments")
def test_the_constructor_arguments_are_kept_for_restarts():
    @skate.remote(max_restarts=1)
    class Keeper:
        def __init__(self, data, box):
            self.data, self.inner = data, skate.get(box[0])

        def get(self):
            return len(self.data), self.inner

        def die(self):
            os._exit(1)

    keeper = Keeper.remote(skate.put(b"x" * 1_000_000), [skate.put("inner")])
    assert skate.get(keeper.get.remote()) == (1_000_000, "inner")
    with pytest.raises(ActorError):
        skate.get(keeper.die.remote())
    eventually(lambda: answers(keeper.get))
    assert skate.get(keeper.get.remote()) == (1_000_000, "inner")


def answers(method):
    try:
        skate.get(method.remote())
    except ActorError:
        return False
    return True


@parallel
def test_calls_are_retried_after_a_restart(tally):
    @skate.remote(max_restarts=1, max_task_retries=1)
    class Shaky:
        def work(self):
            if tally.add() == 1:
                os._exit(1)
            return "done"

    assert skate.get(Shaky.remote().work.remote()) == "done"


@parallel
@pytest.mark.differs_from_ray("Ray retries in any order")
def test_queued_calls_are_retried_in_their_order(tally):
    @skate.remote(max_restarts=1, max_task_retries=-1)
    class Shaky:
        def work(self, i):
            tally.add(i)
            if i == 1 and tally.words().count("1") == 1:
                os._exit(1)
            return i

    shaky = Shaky.remote()
    assert skate.get([shaky.work.remote(i) for i in range(5)]) == [0, 1, 2, 3, 4]
    words = tally.words()
    assert words[words.index("1") + 1 :] == ["1", "2", "3", "4"]


@parallel
def test_an_actor_knows_that_it_was_restarted():
    @skate.remote(max_restarts=1, max_task_retries=1)
    class Curious:
        def restarted(self):
            return skate.get_runtime_context().was_current_actor_reconstructed

        def die(self):
            os._exit(1)

    curious = Curious.remote()
    assert skate.get(curious.restarted.remote()) is False
    with pytest.raises(ActorError):
        skate.get(curious.die.options(max_task_retries=0).remote())
    assert skate.get(curious.restarted.remote()) is True


# -- limits ---------------------------------------------------------------------------------------


@parallel
def test_max_pending_calls(flag):
    counter, go = Counter.options(max_pending_calls=2).remote(), flag("go")
    refs = [counter.hold.remote(go)]
    with pytest.raises(skate.exceptions.PendingCallsLimitExceeded):
        refs.extend(counter.increment.remote() for _ in range(10))
    go.set()
    skate.get(refs)


@parallel
def test_pending_calls_are_counted_for_each_caller(flag):
    @skate.remote
    def call(counter):
        return counter.increment.remote()

    counter, go = Counter.options(max_pending_calls=1).remote(), flag("go")
    held = counter.hold.remote(go)
    with pytest.raises(skate.exceptions.PendingCallsLimitExceeded):
        counter.increment.remote()
    inner = skate.get(call.remote(counter), timeout=60)
    go.set()
    skate.get([held, inner], timeout=60)


@parallel
@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}])
def test_calls_wait_for_a_constructor_that_crashes(tally, options):
    @skate.remote(max_restarts=3, **options)
    class Fragile:
        def __init__(self, tally):
            if tally.add() < 3:
                os._exit(1)

        def hello(self):
            return "hello"

    fragile = Fragile.remote(tally)
    assert skate.get([fragile.hello.remote() for _ in range(3)], timeout=60) == ["hello"] * 3


@pytest.mark.differs_from_ray("Ray takes 0 for 1")
def test_an_actor_that_may_do_nothing_at_a_time_is_refused():
    with pytest.raises(ValueError, match="max_concurrency"):
        Counter.options(max_concurrency=0).remote()


@pytest.mark.parametrize(
    "options",
    [
        {"max_restarts": -2},
        {"max_task_retries": -2},
        {"lifetime": "eternal"},
        {"num_cpus": -1},
        {"num_returns": 2},
        {"unknown": 1},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises((ValueError, TypeError)):
        Counter.options(**options).remote()
