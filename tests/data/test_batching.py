"""How batches are made: shuffled, ahead, and moved to a device."""

import threading
from collections import UserDict
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import skate.data
from skate.data._execution import positions
from skate.data._execution.batching import moved
from tests.support import eventually


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Encoding(UserDict[str, Any]):
    """As tokenizers of transformers make them."""


class TestMoving:
    def test_named_tuples(self):
        pair = moved(Pair(torch.ones(2), torch.zeros(1)), "meta", False)
        assert isinstance(pair, Pair)
        assert {tensor.device.type for tensor in pair} == {"meta"}

    def test_mappings(self):
        given = Encoding(ids=torch.ones(2), nested={"a": [torch.ones(1)]})
        found = moved(given, "meta", False)
        assert isinstance(found, Encoding)
        assert found["ids"].device.type == found["nested"]["a"][0].device.type == "meta"
        assert given["ids"].device.type == "cpu"


@pytest.mark.usefixtures("engine")
class TestTypes:
    def test_for_a_column_that_there_is_not(self):
        with pytest.raises(KeyError, match=r"'idd'.*'id'"):
            list(skate.data.range(3).iter_torch_batches(dtypes={"idd": torch.float32}))


@pytest.mark.usefixtures("engine")
class TestShuffling:
    def test_rows_are_moved_a_few_times_only(self, monkeypatch):
        work = []
        taken = positions.taken

        def counted(table, order):
            work.append(len(order))
            return taken(table, order)

        monkeypatch.setattr(positions, "taken", counted)
        dataset = skate.data.range(4000, override_num_blocks=400)
        batches = dataset.iter_batches(
            batch_size=10, local_shuffle_buffer_size=500, local_shuffle_seed=1
        )
        rows = [n for batch in batches for n in batch["id"].tolist()]
        assert sorted(rows) == list(range(4000))
        assert sum(work) <= 3 * 4000

    def test_rows_come_from_the_whole_buffer(self):
        batches = skate.data.range(4000, override_num_blocks=400).iter_batches(
            batch_size=100, local_shuffle_buffer_size=1000, local_shuffle_seed=1
        )
        first = next(iter(batches))["id"]
        assert first.max() > 800
        assert first.max() < 2100


@pytest.mark.usefixtures("engine")
class TestPrefetching:
    def test_batches_are_made_ahead_in_a_thread(self):
        made = []

        def collate(batch):
            made.append(threading.current_thread().name)
            return batch

        batches = iter(
            skate.data.range(100).iter_batches(
                batch_size=10, prefetch_batches=3, _collate_fn=collate
            )
        )
        np.testing.assert_array_equal(next(batches)["id"], np.arange(10))
        eventually(lambda: len(made) >= 4)
        assert set(made) == {"skate-prefetch"}
        assert len(list(batches)) == 9
