"""Parts of a stream for several consumers: who gets which rows, epoch after epoch."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import skate
import skate.data
from skate.data import iterator
from skate.data._execution import split_coordinator
from skate.data._execution.split_coordinator import Turn
from skate.data._execution.split_readers import SplitReader
from skate.data.iterator import split_iterators
from tests.support import PATIENCE, local_only

pytestmark = pytest.mark.usefixtures("engine")

inline_only = pytest.mark.engines("inline")


@skate.remote
def rows_of_part(part: Any) -> int:
    return sum(len(batch["id"]) for batch in part.iter_batches(batch_size=1))


@skate.remote
class Consumer:
    def __init__(self, part: Any) -> None:
        self.batches = iter(part.iter_batches(batch_size=1))

    def next(self) -> int:
        return int(next(self.batches)["id"][0])


@pytest.mark.engines("local")
class TestReaders:
    def test_a_second_reader_of_a_part_is_an_error(self) -> None:
        parts = skate.data.range(100).streaming_split(2, equal=True)
        first, second = (Consumer.options(num_cpus=0).remote(part) for part in parts)
        skate.get([first.next.remote(), second.next.remote()])
        intruder = Consumer.options(num_cpus=0).remote(parts[0])
        with pytest.raises(ValueError, match="part 0 of a split in 2 is read by two"):
            skate.get(intruder.next.remote(), timeout=60)
        assert skate.get(first.next.remote(), timeout=60) >= 0

    def test_tasks_after_each_other_read_an_epoch_each(self) -> None:
        parts = skate.data.range(10).streaming_split(2, equal=True)
        for _ in range(3):
            counts = skate.get([rows_of_part.remote(part) for part in parts], timeout=60)
            assert counts == [5, 5]

    @pytest.mark.parametrize("blocks", [1, 2, 8])
    def test_nobody_starves_beside_a_fast_reader(self, blocks: int) -> None:
        rows = skate.data.range(64, override_num_blocks=blocks).materialize()
        slow, fast = rows.streaming_split(2, equal=False)
        reader = Consumer.options(num_cpus=0).remote(slow)
        begun = reader.next.remote()
        count = skate.get(rows_of_part.remote(fast), timeout=60)
        assert skate.get(begun, timeout=60) >= 0
        assert 1 <= count < 64


@inline_only
def test_parts_that_cannot_be_read_side_by_side(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.2)
    first, _ = skate.data.range(10).streaming_split(2, equal=True)
    read = skate.remote(lambda part: [row["id"] for row in part.iter_rows()])
    with pytest.raises(RuntimeError, match=r"part 1 .* the inline engine runs one task after"):
        skate.get(read.remote(first))


@inline_only
def test_parts_that_one_thread_reads_one_after_the_other(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.2)
    first, _ = skate.data.range(10).streaming_split(2)
    with pytest.raises(RuntimeError, match=r"part 1 .* is not read, and cannot be"):
        list(first.iter_rows())


@inline_only
def test_a_part_that_is_not_read_is_named(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.2)
    warned = threading.Event()
    texts = []

    def show(text, **options):
        texts.append(text)
        warned.set()

    monkeypatch.setattr(split_coordinator.warnings, "warn", show)
    first, second = skate.data.range(10).streaming_split(2, equal=True)
    counts = []
    thread = threading.Thread(target=lambda: counts.append(len(list(first.iter_rows()))))
    thread.start()
    assert warned.wait(60)
    assert len(list(second.iter_rows())) == 5
    thread.join(60)
    assert counts == [5]
    assert texts == ["part 1 of a split in 2 is not read, and others wait for it"]


class TestStreamingSplit:
    def read(self, parts, epochs=1):
        """What each part gets, read side by side."""
        found = [[] for _ in parts]

        def consume(number):
            for _ in range(epochs):
                rows = [n for b in parts[number].iter_batches(batch_size=4) for n in b["id"]]
                found[number].append([int(n) for n in rows])

        threads = [threading.Thread(target=consume, args=(n,)) for n in range(len(parts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=90)
            assert not thread.is_alive()
        return found

    @local_only
    def test_equal_parts_drop_what_does_not_divide(self):
        dataset = skate.data.range(11).map(lambda row: row)
        parts = self.read(dataset.streaming_split(2, equal=True), epochs=2)
        for epoch in range(2):
            rows = [part[epoch] for part in parts]
            assert [len(part) for part in rows] == [5, 5]
            assert len({*rows[0], *rows[1]}) == 10

    @local_only
    def test_unequal_parts_lose_nothing(self):
        parts = self.read(skate.data.range(101).streaming_split(3))
        assert sorted(n for part in parts for n in part[0]) == list(range(101))

    @local_only
    def test_repeated_rows_make_equal_parts_without_loss(self):
        from skate.data.iterator import split_iterators

        parts = self.read(split_iterators(skate.data.range(10), 3, "repeat"))
        assert [len(part[0]) for part in parts] == [4, 4, 4]
        assert {n for part in parts for n in part[0]} == set(range(10))

    @local_only
    def test_an_error_reaches_every_consumer(self):
        dataset = skate.data.range(10).map(lambda row: {"id": 1 // (row["id"] - 5)})
        first, second = dataset.streaming_split(2)
        failures = []

        def consume(part):
            try:
                list(part.iter_rows())
            except ZeroDivisionError as error:
                failures.append(error)

        threads = [threading.Thread(target=consume, args=(part,)) for part in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert len(failures) == 2

    @local_only
    @pytest.mark.init(num_cpus=1)
    def test_consumers_that_hold_all_cpus_do_not_starve_the_data(self):
        dataset = skate.data.range(20).map(lambda row: row)
        (part,) = dataset.streaming_split(1)

        @skate.remote(num_cpus=1)
        def train(given):
            return sum(int(batch["id"].sum()) for batch in given.iter_batches())

        assert skate.get(train.remote(part), timeout=60) == 190


def side_by_side(*functions):
    """What the functions return, each run in a thread of its own."""
    found = [None] * len(functions)

    def run(number):
        found[number] = functions[number]()

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return found


def ids(part, at_most=None):
    """The rows of an epoch, which may end early."""
    found = []
    for row in part.iter_rows():
        found.append(row["id"])
        if len(found) == at_most:
            break
    return found


def slowly(batch):
    import time

    time.sleep(0.05)
    return batch


@local_only
@pytest.mark.parametrize("uneven", ["drop", "repeat"])
def test_a_part_is_read_to_its_end_while_the_other_one_rests(uneven):
    first, second = split_iterators(skate.data.range(40, override_num_blocks=20), 2, uneven)
    over = threading.Event()

    def resting():
        rows = 0
        for batch in first.iter_batches(batch_size=None, prefetch_batches=0):
            rows += len(batch["id"])
            if rows == 10:
                assert over.wait(PATIENCE)
        return rows

    def reading():
        rows = ids(second)
        over.set()
        return len(rows)

    assert side_by_side(resting, reading) == [20, 20]


@local_only
class TestAnEpochThatEndsEarly:
    @pytest.mark.parametrize("uneven", ["keep", "drop", "repeat"])
    def test_the_next_one_is_whole(self, uneven):
        dataset = skate.data.range(20, override_num_blocks=10).map_batches(slowly)
        (part,) = split_iterators(dataset, 1, uneven)
        for _ in range(3):
            assert ids(part, at_most=3) == [0, 1, 2]
        assert ids(part) == list(range(20))

    @pytest.mark.parametrize("uneven", ["keep", "drop", "repeat"])
    def test_of_one_part_does_not_hold_up_the_other(self, uneven):
        dataset = skate.data.range(200, override_num_blocks=50).map_batches(lambda b: b)
        first, second = split_iterators(dataset, 2, uneven)

        def hurried():
            ids(first, at_most=1)
            return ids(first)

        def patient():
            return [ids(second), ids(second)]

        last, (whole, other) = side_by_side(hurried, patient)
        assert len(set(whole)) == len(whole) > 0
        assert sorted(last + other) == list(range(200))

    def test_and_is_the_last_of_that_part(self):
        dataset = skate.data.range(200, override_num_blocks=50)
        first, second = split_iterators(dataset, 2, "drop")
        early, whole = side_by_side(lambda: ids(first, at_most=1), lambda: ids(second))
        assert (len(early), len(whole)) == (1, 100)

    def test_an_epoch_that_is_given_up_before_it_begins(self):
        first, second = split_iterators(skate.data.range(40, override_num_blocks=20), 2, "drop")
        first._coordinator.next.remote(
            0, Turn(0, "unread"), SplitReader.here()
        )  # and nobody reads what comes
        first._epoch = 1
        rows, (early, late) = side_by_side(lambda: ids(first), lambda: [ids(second), ids(second)])
        assert len(early) == 20
        assert sorted(rows + late) == list(range(40))


def fails_on_five(row):
    if row["id"] == 5:
        raise ValueError("five")
    return row


@local_only
def test_the_settings_of_the_driver_reach_splits_and_iterators():
    context = skate.data.DataContext.get_current()
    context.max_errored_blocks = 1
    try:
        dataset = skate.data.range(20, override_num_blocks=10).map(fails_on_five)
        (part,) = dataset.streaming_split(1)
        expected = [n for n in range(20) if n not in (4, 5)]
        assert ids(part) == expected
        assert skate.get(skate.remote(ids).remote(dataset.iterator())) == expected
    finally:
        context.max_errored_blocks = 0
