"""to_torch, and workers of a DataLoader."""

import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
def test_lists_among_features():
    frame = pd.DataFrame({"a": [[1, 2], [3, 4]], "y": [0, 1]})
    dataset = skate.data.from_pandas(frame).to_torch(label_column="y", batch_size=2)
    features, label = next(iter(dataset))
    assert features.shape == (2, 1, 2)
    assert label.shape == (2, 1)


def pairs(count=20):
    return skate.data.from_items([{"x": n, "y": n} for n in range(count)])


def test_workers_of_a_data_loader_share_the_rows():
    dataset = pairs().to_torch(label_column="y", batch_size=5)
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    assert sorted(n for _, labels in loader for n in labels.ravel().tolist()) == [*range(20)]


def test_workers_of_a_data_loader_cannot_share_a_random_order():
    dataset = pairs().random_shuffle().to_torch(label_column="y", batch_size=5)
    with pytest.raises(ValueError, match="shuffled without a seed"):
        next(iter(DataLoader(dataset, batch_size=None, num_workers=2)))


def test_to_torch_names_the_label_that_is_not_there():
    with pytest.raises(KeyError, match="no such column in the dataset: 'zz'; the columns are"):
        next(iter(pairs().to_torch(label_column="zz")))


def test_to_torch():
    rows = [{"a": n, "b": n * 2.0, "y": n % 2} for n in range(6)]
    batches = skate.data.from_items(rows).to_torch(
        label_column="y", batch_size=3, feature_column_dtypes=torch.float32
    )
    features, label = next(iter(batches))
    assert features.shape == (3, 2)
    assert label.shape == (3, 1)


def test_a_dataloader_reads_it():
    dataset = skate.data.range(6).to_torch(batch_size=2)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None)
    assert sum(int(features.sum()) for features, _ in loader) == 15
