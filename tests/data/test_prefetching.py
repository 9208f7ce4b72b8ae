"""A thread that works ahead: how far, and that it ends with whoever it works for."""

import threading
from itertools import count

import pytest

from skate.data._execution.prefetching import prefetched
from tests.support import PATIENCE, eventually


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "skate-prefetch"]


def noting(seen, items):
    for item in items:
        seen.append(item)
        yield item


@pytest.mark.parametrize(("most", "weight", "ahead"), [(3, 1, 3), (30, 10, 3), (5, 10, 1)])
def test_as_much_waits_as_may(most, weight, ahead):
    seen = []
    items = prefetched(noting(seen, range(20)), most, lambda _: weight)
    assert next(items) == 0
    made = 1 + ahead + 1  # the one that was taken, those that wait, one that has no room
    eventually(lambda: len(seen) == made)
    assert list(items) == list(range(1, 20))
    assert not threads()


def test_an_error_comes_after_what_was_made_before():
    def failing():
        yield 1
        raise KeyError("a")

    items = prefetched(failing(), 5)
    assert next(items) == 1
    with pytest.raises(KeyError, match="a"):
        next(items)


def test_threads_that_work_for_each_other_end_together():
    released = threading.Event()

    def source():
        try:
            yield from count()
        finally:
            released.set()

    items = prefetched(map(str, prefetched(source(), 2)), 2)
    assert next(items) == "0"
    items.close()
    assert released.wait(PATIENCE)
    eventually(lambda: not threads())
