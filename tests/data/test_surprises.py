"""What a newcomer tries first: it works, or the error says what to do instead."""

from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader

import skate.data

pytestmark = pytest.mark.usefixtures("engine")


def pairs(count=20):
    return skate.data.from_items([{"x": n, "y": n} for n in range(count)])


# -- a DataLoader with workers ------------------------------------------------------------------


def test_workers_of_a_data_loader_share_the_rows():
    dataset = pairs().to_torch(label_column="y", batch_size=5)
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    assert sorted(n for _, labels in loader for n in labels.ravel().tolist()) == [*range(20)]


def test_workers_of_a_data_loader_cannot_share_a_random_order():
    dataset = pairs().random_shuffle().to_torch(label_column="y", batch_size=5)
    with pytest.raises(ValueError, match="shuffled without a seed"):
        next(iter(DataLoader(dataset, batch_size=None, num_workers=2)))


def test_to_torch_names_the_label_that_is_not_there():
    with pytest.raises(KeyError, match="there is no column 'zz'; the columns are"):
        next(iter(pairs().to_torch(label_column="zz")))


# -- tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3)], ids=["fixed", "ragged"])
def test_tensors_that_are_missing_survive_parquet(sizes, tmp_path):
    first, last = (np.arange(size * 2.0).reshape(size, 2) for size in sizes)
    skate.data.from_items([{"t": first}, {"t": None}, {"t": last}]).write_parquet(tmp_path)
    rows = [row["t"] for row in skate.data.read_parquet(tmp_path).take_all()]
    assert rows[1] is None
    np.testing.assert_array_equal(rows[0], first)
    np.testing.assert_array_equal(rows[2], last)


def test_bfloat16_becomes_float32():
    (row,) = skate.data.from_items([{"t": torch.ones(2, dtype=torch.bfloat16)}]).take_all()
    assert row["t"].dtype == np.float32
    assert row["t"].tolist() == [1, 1]


# -- columns of the same name -------------------------------------------------------------------


def test_renaming_onto_another_column_is_refused():
    with pytest.raises(ValueError, match="several columns are called 'y'"):
        pairs().rename_columns({"x": "y"}).take_all()
    assert pairs(1).rename_columns({"x": "y", "y": "x"}).take_all() == [{"y": 0, "x": 0}]


def test_columns_of_the_same_name_are_refused(tmp_path):
    (tmp_path / "twice.csv").write_text("a,a,b\n1,2,3\n")
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    for make in (
        lambda: skate.data.from_arrow(pa.table([[1], [2]], names=["a", "a"])),
        lambda: skate.data.from_pandas(frame),
        lambda: skate.data.read_csv(tmp_path).take_all(),
    ):
        with pytest.raises(ValueError, match="several columns are called 'a'"):
            make()


# -- the caller's memory ------------------------------------------------------------------------


def test_datasets_do_not_change_with_what_they_were_made_of():
    array, frame = np.arange(3.0), pd.DataFrame({"data": np.arange(3.0)})
    datasets = skate.data.from_numpy(array), skate.data.from_pandas(frame)
    array[0] = frame.loc[0, "data"] = 55
    assert [dataset.take(1) for dataset in datasets] == [[{"data": 0.0}]] * 2


# -- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: skate.data.from_items(cast("Any", 5)), "from_items takes a list of rows.* got 5"),
        (lambda: skate.data.from_items({"a": 1}), "from_items takes a list of rows"),
        (lambda: skate.data.from_items([{}, {}]), "the 2 rows have no columns"),
        (lambda: skate.data.from_pandas([1, 2]), "from_pandas takes a DataFrame.* got 1"),
        (lambda: skate.data.range(cast("Any", "5")), "range takes a whole number; got '5'"),
        (
            lambda: skate.data.range_tensor(2, shape=cast("Any", 2)),
            r"range_tensor takes a shape.* shape=2",
        ),
        (lambda: skate.data.range(3).take(-1), "take takes a number of at least 0; got -1"),
        (lambda: skate.data.range(3).repartition(0), "num_blocks takes a number of at least 1"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
