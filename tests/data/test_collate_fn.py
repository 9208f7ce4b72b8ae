"""Functions that make batches, by the form of the batches that they take."""

import numpy as np
import pandas as pd
import pytest
import torch

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
def test_the_default_collate_function():
    import torch

    from skate.data.collate_fn import DefaultCollateFn

    collate = DefaultCollateFn(dtypes={"id": torch.float32}, num_workers=0)
    (batch,) = skate.data.range(2).iter_torch_batches(collate_fn=collate)
    assert batch["id"].dtype == torch.float32


class TestCollate:
    def test_each_form_of_batches(self):
        class OfFrames(skate.data.PandasBatchCollateFn):
            def __call__(self, batch):
                assert isinstance(batch, pd.DataFrame)
                return torch.tensor(batch["id"].to_numpy())

        class OfTables(skate.data.ArrowBatchCollateFn):
            def __call__(self, batch):
                return torch.tensor(batch["id"].to_numpy())

        for collate in (OfFrames(), OfTables()):
            batch = next(iter(skate.data.range(3).iter_torch_batches(collate_fn=collate)))
            assert batch.tolist() == [0, 1, 2]

    def test_jax_that_is_not_installed_is_named(self):
        with pytest.raises(ImportError, match="'jax'"):
            skate.data.range(3).iter_jax_batches()


def test_a_collate_function_cannot_change_the_dataset():
    def clear(batch):
        return torch.as_tensor(batch["data"]).zero_()

    dataset = skate.data.from_numpy(np.ones((4, 2)))
    assert sum(b.sum() for b in dataset.iter_torch_batches(batch_size=2, collate_fn=clear)) == 0
    assert dataset.take_batch(4)["data"].sum() == 8
