"""Words in errors that programs look for: each engine's sentence has them."""

import pytest

import skate

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def plain(x):
    return x


@skate.remote
class Actor:
    def method(self):
        return 1


def inherit():
    class Derived(Actor):
        pass


def handle():
    return Actor.remote()


WORDS = [
    (inherit, TypeError, "Inheriting from actor classes"),
    (lambda: Actor(), TypeError, "cannot be instantiated directly"),
    (lambda: plain(1), TypeError, "Remote functions cannot be called directly"),
    (lambda: handle().method(), TypeError, "Actor methods cannot be called directly"),
    (lambda: skate.actor.exit_actor(), TypeError, "non-actor worker"),
    (
        lambda: plain.options(num_returns="streaming").remote(1),
        ValueError,
        "can only be used with generator",
    ),
    (lambda: skate.get_actor("nobody"), ValueError, "Failed to look up actor with name 'nobody'"),
    (lambda: plain.options(colour=1), ValueError, "Invalid option keyword"),
    (lambda: plain.options(max_calls=1), ValueError, "'max_calls' is not supported in"),
    (lambda: plain.remote(), TypeError, "missing a required argument: 'x'"),
    (lambda: Actor.options(get_if_exists=True).remote(), ValueError, "get_if_exists"),
    (lambda: skate.kill(1), ValueError, "actor"),
    (lambda: skate.cancel(handle()), TypeError, "kill"),
    (lambda: skate.wait([1]), TypeError, "wait\\(\\)"),
]


@pytest.mark.parametrize(("act", "error", "words"), WORDS, ids=[row[2] for row in WORDS])
def test_the_words_that_programs_look_for(act, error, words):
    with pytest.raises(error, match=words):
        act()
