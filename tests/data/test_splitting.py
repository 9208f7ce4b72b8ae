"""Parts of a dataset: who gets which rows."""

import threading

import numpy as np
import pytest

import skate
import skate.data
from skate.data._execution.split_readers import SplitReader
from skate.data.iterator import Turn, split_iterators
from tests.support import PATIENCE, local_only

pytestmark = pytest.mark.usefixtures("engine")


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


def slowly(batch):
    import time

    time.sleep(0.05)
    return batch


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


def fails_on_five(row):
    if row["id"] == 5:
        raise ValueError("five")
    return row


class TestStreamingTrainTestSplit:
    def test_no_row_is_in_both_when_read_side_by_side(self):
        dataset = skate.data.range(2000, override_num_blocks=10)
        train, test = dataset.streaming_train_test_split(0.3, seed=1)
        found = {"train": set(), "test": set()}
        batches = zip(
            train.iter_batches(batch_size=50), test.iter_batches(batch_size=50), strict=False
        )
        for one, other in batches:
            found["train"].update(one["id"].tolist())
            found["test"].update(other["id"].tolist())
        assert not found["train"] & found["test"]
        assert train.count() + test.count() == 2000

    @pytest.mark.parametrize("options", [{"seed": 1}, {}, {"split_type": "hash"}])
    def test_streaming_train_and_test_are_disjoint_and_complete(self, options):
        if "split_type" in options:
            options = {**options, "hash_column": "id"}
        parts = skate.data.range(400).streaming_train_test_split(0.25, **options)
        train, test = ({row["id"] for row in part.take_all()} for part in parts)
        assert not train & test
        assert train | test == set(range(400))
        assert 40 < len(test) < 160  # without a seed, too: seven deviations
        assert parts[0].columns() == ["id"]

    def test_mistakes(self):
        dataset = skate.data.range(4)
        for wrong in ({"split_type": "hash"}, {"hash_column": "id"}, {"split_type": "x"}):
            with pytest.raises(ValueError, match=r"hash_column|split_type"):
                dataset.streaming_train_test_split(0.5, **wrong)
        with pytest.raises(ValueError, match="shuffle first"):
            dataset.train_test_split(0.5, shuffle=True, stratify="id")


class TestStratified:
    def rows(self, *counts):
        labels = [label for label, count in enumerate(counts) for _ in range(count)]
        return skate.data.from_items([{"label": label, "n": n} for n, label in enumerate(labels)])

    @pytest.mark.parametrize("size", [5.0, 0.0, -1, 1000])
    def test_impossible_sizes(self, size):
        with pytest.raises(ValueError, match="test_size"):
            self.rows(5, 5).train_test_split(size, stratify="label")

    def test_the_number_of_rows_is_exact(self):
        train, test = self.rows(7, 7, 7, 7, 7).train_test_split(6, stratify="label")
        assert (train.count(), test.count()) == (29, 6)
        counts = np.bincount([row["label"] for row in test.take_all()])
        assert set(counts) == {1, 2}

    def test_order_is_kept_and_nothing_lost(self):
        context = skate.data.DataContext.get_current()
        before = context.sort_memory_bytes
        context.sort_memory_bytes = 100
        try:
            train, test = self.rows(30, 10).repartition(8).train_test_split(0.2, stratify="label")
        finally:
            context.sort_memory_bytes = before
        halves = [[row["n"] for row in half.take_all()] for half in (train, test)]
        assert all(half == sorted(half) for half in halves)
        assert sorted(halves[0] + halves[1]) == list(range(40))
        assert halves[1] == [*range(24, 30), 38, 39]


@local_only
@pytest.mark.parametrize("split", [
    lambda dataset: dataset.split(2),
    lambda dataset: dataset.split_at_indices([50]),
    lambda dataset: dataset.split_proportionately([0.5]),
])  # fmt: skip
def test_large_parts_are_kept_in_the_object_store(split):
    context = skate.data.DataContext.get_current()
    before = context.sort_memory_bytes
    context.sort_memory_bytes = 100
    try:
        parts = split(skate.data.range(100, override_num_blocks=10))
    finally:
        context.sort_memory_bytes = before
    assert [[row["id"] for row in part.take_all()] for part in parts] == [
        list(range(50)), list(range(50, 100)),
    ]  # fmt: skip
    bundles = [bundle for part in parts for bundle in part._plan.bundles]
    assert sum(bundle.block is not None for bundle in bundles) <= 2


@pytest.mark.engines("inline")
def test_no_share_is_empty():
    parts = skate.data.range(10).split_proportionately([0.98, 0.01])
    assert [part.count() for part in parts] == [8, 1, 1]
    with pytest.raises(ValueError, match="too few"):
        skate.data.range(2).split_proportionately([0.1, 0.1, 0.1])
