"""Leaving a loop before its end: nobody waits for what nobody wants."""

import contextlib
import threading
import time

import numpy as np
import psutil
import pytest

import skate
import skate.data
from skate.data._execution.early_exit import Cancellation
from skate.util.state import list_objects
from tests.support import eventually

SEGMENT_BYTES = 1 << 20  # of a block that is in shared memory
LONG = 60.0  # seconds that a block would take; far more than any machine needs to leave


@pytest.fixture
def gate(tmp_path):
    """A file that blocks wait for; it is there at the end, so that no worker sleeps on."""
    yield tmp_path / "open"
    (tmp_path / "open").touch()


def slow(gate):
    """The first block comes at once, the others when the gate opens."""

    def wait(batch):
        deadline = time.monotonic() + LONG
        while batch["id"][0] and not gate.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return batch

    return skate.data.range(20, override_num_blocks=20).map_batches(wait, batch_size=None)


@pytest.mark.engines("local")
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "iterate",
    [
        lambda ds: ds.iter_rows(),
        lambda ds: ds.iter_batches(batch_size=1),
        lambda ds: ds.iter_batches(batch_size=1, prefetch_batches=3),
        lambda ds: ds.iter_torch_batches(batch_size=1, collate_fn=lambda batch: batch),
        lambda ds: ds.streaming_split(1)[0].iter_batches(batch_size=1, prefetch_batches=3),
    ],
    ids=["rows", "batches", "prefetched", "collated", "split"],
)
def test_a_block_is_under_way(gate, iterate):
    iterator = iter(iterate(slow(gate)))
    next(iterator)
    started = time.monotonic()
    del iterator
    assert time.monotonic() - started < LONG / 2
    ahead = [thread for thread in threading.enumerate() if thread.name == "skate-prefetch"]
    for thread in ahead:
        thread.join(LONG / 2)
    assert not any(thread.is_alive() for thread in ahead)
    assert not gate.exists()
    assert skate.data.range(3).count() == 3


@pytest.mark.engines("local")
@pytest.mark.usefixtures("engine")
def test_others_read_on_when_one_leaves(gate):
    left, right = slow(gate).streaming_split(2, equal=True)
    rows = []
    reader = threading.Thread(target=lambda: rows.extend(right.iter_rows()))
    reader.start()
    iterator = iter(left.iter_batches(batch_size=1, prefetch_batches=2))
    gate.touch()
    next(iterator)
    del iterator
    reader.join(LONG)
    assert len(rows) == 10


def test_what_fails_in_leaving_is_nobodys_concern():
    cancellation, seen = Cancellation(), []

    def fail():
        raise OSError

    cancellation.then(fail)
    called = threading.Event()
    cancellation.then(called.set)
    cancellation.declare()
    assert called.wait(LONG)
    cancellation.then(lambda: seen.append("late"))
    assert seen == ["late"]


class Keep:
    def __call__(self, batch):
        return batch


@pytest.mark.engines("local")
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("prefetch", [0, 3])
def test_what_was_under_way_is_freed(prefetch):
    def objects():
        return {row.object_id for row in list_objects() if row.object_size >= SEGMENT_BYTES}

    def actors():
        below = psutil.Process().children(recursive=True)
        return [each for each in below if "MapWorker" in titled(each)]

    before = objects()
    rows = skate.data.range(40, override_num_blocks=40)
    rows = rows.map_batches(lambda batch: {"x": np.ones((1, SEGMENT_BYTES), np.uint8)})
    rows = rows.map_batches(Keep, batch_size=None, concurrency=2)
    batches = iter(rows.iter_batches(batch_size=1, prefetch_batches=prefetch))
    batch = next(batches)
    assert objects() - before
    assert actors()
    del rows, batches, batch
    eventually(lambda: not objects() - before)
    eventually(lambda: not actors())


def titled(process):
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
