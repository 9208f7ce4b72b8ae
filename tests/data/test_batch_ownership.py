"""Whose memory it is: torch writes into arrays that say they are read-only, and must not reach the
rows that a dataset keeps."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate
import skate.data
from skate.data._execution import batching
from skate.data._execution.batching import tensor_of

pytestmark = pytest.mark.usefixtures("engine")

torch = pytest.importorskip("torch")

MAKERS = {
    "tensors": lambda: skate.data.from_numpy(np.zeros((40, 4))),
    "ragged": lambda: skate.data.from_items([{"x": np.zeros(n % 3 + 1)} for n in range(40)]),
    "lists": lambda: skate.data.from_arrow(pa.table({"x": [[0.0, 0.0], [0.0]] * 20})),
    "frame": lambda: skate.data.from_pandas(pd.DataFrame({"x": np.zeros(40)})),
    "computed": lambda: skate.data.range(40).map_batches(lambda b: {"x": b["id"] * 0.0}),
}
WAYS = {
    "batches": lambda ds: columns(ds.iter_batches(batch_size=7)),
    "blocks": lambda ds: columns(ds.iter_batches(batch_size=None)),
    "prefetched": lambda ds: columns(ds.iter_batches(batch_size=7, prefetch_batches=3)),
    "iterator": lambda ds: columns(ds.iterator().iter_batches(batch_size=7)),
    "selected": lambda ds: columns(ds.select_columns(ds.columns()).limit(30).iter_batches()),
    "united": lambda ds: columns(ds.union(ds).iter_batches(batch_size=7)),
    "one batch": lambda ds: columns([ds.take_batch(9)]),
    "rows": lambda ds: columns(ds.iter_rows()),
    "taken rows": lambda ds: columns(ds.take(9)),
    "pandas": lambda ds: columns(ds.iter_batches(batch_format="pandas", batch_size=7)),
    "one frame": lambda ds: columns([ds.to_pandas()]),
    "torch": lambda ds: columns(ds.iter_torch_batches(batch_size=7)),
}


def columns(batches):
    return (batch[name] for batch in batches for name in batch)


def write(values):
    """Add one to all numbers, as torch does it."""
    if isinstance(values, pd.Series):
        values = values.to_numpy()
    if isinstance(values, list) or getattr(values, "dtype", None) == np.dtype(object):
        for value in values:
            write(value)
    elif isinstance(values, (np.ndarray, torch.Tensor)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, which is what this is about
            torch.as_tensor(values).add_(1)


@pytest.mark.engines("inline")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("maker", MAKERS)
def test_writing_with_torch(maker, way):
    dataset = MAKERS[maker]().materialize()
    for values in WAYS[way](dataset):
        write(values)
    assert all(np.sum(row[name]) == 0 for row in dataset.take_all() for name in row)


@pytest.mark.engines("inline")
def test_batches_of_what_is_kept_may_be_changed():
    dataset = skate.data.from_numpy(np.zeros(10))
    for batch in dataset.iter_batches(batch_size=4):
        batch["data"] += 1
    assert dataset.sum("data") == 0


@pytest.mark.engines("inline")
def test_arrow_shows_the_rows_themselves():
    table = pa.table({"x": np.arange(10)})
    (batch,) = skate.data.from_arrow(table).iter_batches(batch_format="pyarrow")
    assert batch["x"].chunk(0).buffers()[1].address == table["x"].chunk(0).buffers()[1].address


def test_datasets_do_not_change_with_what_they_were_made_of():
    array, frame = np.arange(3.0), pd.DataFrame({"data": np.arange(3.0)})
    datasets = skate.data.from_numpy(array), skate.data.from_pandas(frame)
    array[0] = frame.loc[0, "data"] = 55
    assert [dataset.take(1) for dataset in datasets] == [[{"data": 0.0}]] * 2


class TestBlocksOfTheObjectStore:
    """Each iteration has memory of its own, of which only what is written to is copied."""

    @staticmethod
    def computed():
        def zeros(batch):
            array = np.zeros((len(batch["id"]), 64, 64), np.float32)
            return {"x": array, "same": array, "number": batch["id"]}

        return skate.data.range(32, override_num_blocks=1).map_batches(zeros, batch_size=None)

    @pytest.mark.parametrize("kept", [False, True])
    def test_what_is_written_is_seen_nowhere_else(self, kept):
        dataset = self.computed().materialize() if kept else self.computed()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # torch's, of memory that is read-only
            for _ in range(2):
                for number, batch in enumerate(dataset.iter_torch_batches(batch_size=8)):
                    assert batch["x"].sum() == batch["same"].sum() == 0
                    assert batch["number"].tolist() == list(range(8 * number, 8 * number + 8))
                    batch["x"].add_(1)
                    assert batch["same"].sum() == 0
                    batch["number"].zero_()

    @pytest.mark.engines("local")
    def test_a_batch_is_not_copied(self, monkeypatch):
        given = []

        def watched(array, *rest):
            tensor = tensor_of(array, *rest)
            given.append(tensor.data_ptr() == array.ctypes.data)
            return tensor

        monkeypatch.setattr(batching, "tensor_of", watched)
        assert len(list(self.computed().iter_torch_batches(batch_size=8))) == 4
        assert given == [True, True, False], "but for a few bytes, once for all batches"

    def test_batches_live_longer_than_the_dataset(self):
        kept = [batch["x"] for batch in self.computed().iter_torch_batches(batch_size=8)]
        other = [batch["x"].add_(1) for batch in self.computed().iter_torch_batches(batch_size=8)]
        assert sum(each.sum() for each in kept) == 0
        assert all(each.min() == 1 for each in other)
