"""Parts of a dataset: who gets which rows."""

import numpy as np
import pytest

import skate
import skate.data
from tests.support import local_only

pytestmark = pytest.mark.usefixtures("engine")


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


class TestSplits:
    def test_split(self):
        counts = [part.count() for part in skate.data.range(10).split(3)]
        assert sum(counts) == 10
        assert max(counts) - min(counts) <= 1
        assert [part.count() for part in skate.data.range(10).split(3, equal=True)] == [3, 3, 3]

    def test_split_at_indices(self):
        parts = skate.data.range(10).split_at_indices([2, 9])
        assert [[row["id"] for row in part.take_all()] for part in parts] == [
            [0, 1], [2, 3, 4, 5, 6, 7, 8], [9],
        ]  # fmt: skip

    def test_split_proportionately(self):
        parts = skate.data.range(10).split_proportionately([0.2, 0.5])
        assert [part.count() for part in parts] == [2, 5, 3]
        with pytest.raises(ValueError, match="less than 1"):
            skate.data.range(10).split_proportionately([0.5, 0.6])

    def test_train_test_split(self):
        train, test = skate.data.range(10).train_test_split(0.25)
        assert (train.count(), test.take_all()) == (7, [{"id": 7}, {"id": 8}, {"id": 9}])
        train, test = skate.data.range(10).train_test_split(4, shuffle=True, seed=1)
        assert sorted(row["id"] for row in train.take_all() + test.take_all()) == list(range(10))

    def test_stratified(self):
        rows = [{"label": n % 2, "n": n} for n in range(40)]
        train, test = skate.data.from_items(rows).train_test_split(0.25, stratify="label")
        assert sum(row["label"] for row in test.take_all()) == 5
        assert train.count() == 30
