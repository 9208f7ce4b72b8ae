"""Batches for training: sizes, types and order."""

import gc
import threading

import numpy as np
import pytest
import torch

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


def test_batches_cross_the_borders_of_blocks():
    dataset = skate.data.range(10, override_num_blocks=4)
    sizes = [len(batch["id"]) for batch in dataset.iter_batches(batch_size=3)]
    assert sizes == [3, 3, 3, 1]
    values = [n for batch in dataset.iter_batches(batch_size=3) for n in batch["id"].tolist()]
    assert values == list(range(10))


def test_drop_last():
    batches = list(skate.data.range(10).iter_batches(batch_size=4, drop_last=True))
    assert [len(batch["id"]) for batch in batches] == [4, 4]


def test_each_iteration_is_an_epoch():
    batches = skate.data.range(4).iter_batches(batch_size=2)
    assert len(list(batches)) == len(list(batches)) == 2


def test_local_shuffle():
    def epoch(seed):
        dataset = skate.data.range(100)
        found = dataset.iter_batches(
            batch_size=10, local_shuffle_buffer_size=30, local_shuffle_seed=seed
        )
        return [n for batch in found for n in batch["id"].tolist()]

    assert sorted(epoch(1)) == list(range(100))
    assert epoch(1) == epoch(1) != epoch(2)
    assert epoch(1) != list(range(100))


class TestTorch:
    def test_types(self):
        dataset = skate.data.from_items([{"a": 1, "b": 2.5}, {"a": 2, "b": 3.5}])
        batch = next(iter(dataset.iter_torch_batches(batch_size=2)))
        assert (batch["a"].dtype, batch["b"].dtype) == (torch.int64, torch.float64)
        batch = next(iter(dataset.iter_torch_batches(dtypes=torch.float32)))
        assert {tensor.dtype for tensor in batch.values()} == {torch.float32}
        batch = next(iter(dataset.iter_torch_batches(dtypes={"a": torch.bfloat16})))
        assert (batch["a"].dtype, batch["b"].dtype) == (torch.bfloat16, torch.float64)

    def test_changes_in_place_do_not_reach_the_dataset(self):
        dataset = skate.data.from_numpy(np.ones((4, 2))).materialize()
        for batch in dataset.iter_torch_batches(batch_size=2):
            batch["data"] += 1
        assert dataset.take_batch(4)["data"].sum() == 8

    def test_collate_fn(self):
        def collate(batch):
            return torch.as_tensor(batch["id"]) * 2

        batches = list(skate.data.range(4).iter_torch_batches(batch_size=2, collate_fn=collate))
        assert [batch.tolist() for batch in batches] == [[0, 2], [4, 6]]

    def test_an_error_in_collate_fn(self):
        def collate(batch):
            raise LookupError("no")

        with pytest.raises(LookupError, match="no"):
            list(skate.data.range(4).iter_torch_batches(collate_fn=collate))

    def test_ragged_columns_are_lists_of_tensors(self):
        dataset = skate.data.from_items([{"x": np.ones(2)}, {"x": np.ones(3)}])
        batch = next(iter(dataset.iter_torch_batches(batch_size=2)))
        assert [len(tensor) for tensor in batch["x"]] == [2, 3]

    def test_complex_numbers(self):
        waves = skate.data.range(2).map_batches(
            lambda batch: {"flat": batch["id"] * 1j, "rows": np.full((len(batch["id"]), 3), 1j)}
        )
        batch = next(iter(waves.iter_torch_batches()))
        assert batch["flat"].tolist() == [0j, 1j]
        assert (batch["rows"].dtype, batch["rows"].shape) == (torch.complex128, (2, 3))

    def test_text_says_what_to_do(self):
        dataset = skate.data.from_items([{"name": "a"}])
        with pytest.raises(TypeError, match=r"'name'.*collate_fn"):
            list(dataset.iter_torch_batches())


class TestPrefetching:
    def test_blocks_come_ahead_anyway(self):
        dataset = skate.data.range(4)
        assert [row["id"] for row in dataset.iter_rows(prefetch_blocks=2)] == [0, 1, 2, 3]
        assert len(list(dataset.iter_batches(batch_size=2, prefetch_blocks=2))) == 2
        assert len(list(dataset.iter_torch_batches(batch_size=2, prefetch_blocks=2))) == 2

    def test_an_abandoned_iterator_ends_its_thread(self):
        batches = iter(skate.data.range(100).iter_batches(batch_size=1, prefetch_batches=3))
        next(batches)
        del batches
        gc.collect()
        names = [thread.name for thread in threading.enumerate()]
        assert "skate-prefetch" not in names


def test_an_iterator_travels():
    @skate.remote
    def total(given):
        return sum(row["id"] for row in given.iter_rows())

    assert skate.get(total.remote(skate.data.range(5).iterator())) == 10
