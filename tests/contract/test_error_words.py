"""Words in errors that programs look for: each engine's sentence has them."""

import os
import threading
from typing import Any, cast

import pytest

import skate
from skate.dag import InputNode
from tests.support import parallel

pytestmark = pytest.mark.usefixtures("engine")


Died = skate.exceptions.ActorDiedError


@skate.remote
def plain(x):
    return x


@skate.remote
class Actor:
    def method(self):
        return 1


@skate.remote
class Stillborn:
    def __init__(self):
        raise ValueError("no")

    def ready(self):
        return True


@skate.remote
def failing():
    raise KeyError("gone")


@skate.remote
def pair(x, y):
    return x, y


def two_inputs():
    with InputNode() as first, InputNode() as second:
        return pair.bind(first, second)


async def coroutine():
    return 1


def two_of_a_name():
    first = Actor.options(name="one of a kind").remote()
    skate.get(first.method.remote())
    return Actor.options(name="one of a kind").remote()


@skate.remote(num_returns=2)
def pair_of_three():
    return 1, 2, 3


def inherit():
    class Derived(Actor):
        pass


def handle():
    return Actor.remote()


WORDS = [
    (inherit, TypeError, "Inheriting from actor classes is not currently supported"),
    (lambda: Actor(), TypeError, "cannot be instantiated directly"),
    (lambda: plain(1), TypeError, "Remote functions cannot be called directly"),  # type: ignore[operator]
    (lambda: handle().method(), TypeError, "Actor methods cannot be called directly"),
    (
        lambda: skate.actor.exit_actor(),
        TypeError,
        "exit_actor API is called on a non-actor worker",
    ),
    (
        lambda: plain.options(num_returns="streaming").remote(1),
        ValueError,
        "can only be used with generator",
    ),
    (lambda: skate.get_actor("nobody"), ValueError, "Failed to look up actor with name 'nobody'"),
    (lambda: Actor.options(name="").remote(), ValueError, "Actor name cannot be an empty"),
    (lambda: two_of_a_name(), ValueError, "The name .* is already taken"),
    (lambda: skate.util.get_placement_group("none"), ValueError, "Failed to look up placement"),
    (lambda: skate.util.placement_group("x"), ValueError, "must be a list"),  # type: ignore[arg-type]
    (
        lambda: skate.util.placement_group([{"CPU": 1}], strategy="TIGHT"),
        ValueError,
        "Invalid placement group strategy",
    ),
    (
        lambda: plain.options(scheduling_strategy="NEAR").remote(1),
        ValueError,
        "Invalid scheduling_strategy value",
    ),
    (lambda: skate.remote(coroutine), ValueError, "'async def' should not be used for remote"),
    (lambda: skate.get(Stillborn.remote().ready.remote()), Died, "error raised in its creation"),
    (lambda: skate.put(threading.Lock()), TypeError, "Could not serialize"),
    (lambda: plain.remote(threading.Lock()), TypeError, "Could not serialize"),
    (lambda: handle().missing, AttributeError, "has no attribute 'missing'"),
    (lambda: plain.options(colour=1), ValueError, "Invalid option keyword"),
    (lambda: plain.options(max_calls=1), ValueError, "'max_calls' is not supported in"),
    (lambda: plain.remote(), TypeError, "missing a required argument: 'x'"),
    (
        lambda: Actor.options(get_if_exists=True).remote(),
        ValueError,
        "actor name must be specified.*get_if_exists",
    ),
    (lambda: skate.kill(cast(Any, 1)), ValueError, "actor"),
    (lambda: skate.cancel(handle()), TypeError, "kill"),
    (lambda: skate.wait([1]), TypeError, "wait\\(\\)"),  # type: ignore[type-var]
    (lambda: plain.options(num_cpus=-1), ValueError, "resource num_cpus cannot be negative"),
    (lambda: Actor.options(resources={"x": -1}), ValueError, "cannot be negative"),
    (lambda: plain.options(scheduling_strategy=1), TypeError, "Invalid scheduling_strategy"),
    (lambda: plain.options(retry_exceptions=["x"]), ValueError, "a list of exception classes"),  # type: ignore[list-item]
    (
        lambda: skate.get(pair_of_three.remote()),
        ValueError,
        "Task returned 3 objects, but num_returns=2",
    ),
    (lambda: skate.get(plain.remote(failing.remote())), KeyError, "could not be computed"),
    (lambda: plain.bind(1).bind(), AttributeError, "bind\\(\\) cannot be used again on"),
    (lambda: InputNode(1), ValueError, "args or kwargs"),
    (lambda: plain.bind(InputNode()).execute(1), AssertionError, "only used in context manager"),
    (lambda: two_inputs().execute(1), AssertionError, "one unique InputNode"),
    (lambda: InputNode()[cast(Any, (1, 2))], AssertionError, "int index.* first-level key"),
]


@pytest.mark.parametrize(("act", "error", "words"), WORDS, ids=[row[2] for row in WORDS])
def test_the_words_that_programs_look_for(act, error, words):
    with pytest.raises(error, match=words):
        act()


@parallel
def test_the_words_about_ends():
    @skate.remote(max_retries=0)
    def crash():
        os._exit(1)

    @skate.remote
    class Mortal:
        def crash(self):
            os._exit(1)

        def wait(self):
            threading.Event().wait()

    with pytest.raises(skate.exceptions.WorkerCrashedError, match="The worker died unexpectedly"):
        skate.get(crash.remote())
    words = r"(?s)died unexpectedly before finishing this .*class_name: .*Mortal,?\s+actor_id: "
    with pytest.raises(Died, match=words):
        skate.get(Mortal.remote().crash.remote())
    actor = Mortal.remote()
    with pytest.raises(skate.exceptions.GetTimeoutError, match="Get timed out"):
        skate.get(actor.wait.remote(), timeout=0.1)
    skate.kill(actor)
    with pytest.raises(Died, match=r"The actor is dead because it was killed by `\w+\.kill"):
        skate.get(actor.wait.remote())
