"""Datasets as batches of tensors and as tf.data."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

import skate
import skate.data
from skate.data.dataset import Dataset
from tests.support import Tally

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.engines("inline")]


def numbers(count: int = 6) -> Dataset:
    return skate.data.from_items([{"a": float(n), "b": n, "y": n % 2} for n in range(count)])


def table(**columns: Any) -> Dataset:
    rows = len(next(iter(columns.values())))
    return skate.data.from_arrow(pa.table({**columns, "y": list(range(rows))}))


def test_batches_and_datasets() -> None:
    batch = next(iter(numbers().iter_tf_batches(batch_size=4, dtypes=tf.float32)))
    assert batch["b"].dtype == tf.float32
    found = list(numbers().to_tf(["a", "b"], "y", batch_size=4))
    assert [len(labels) for _, labels in found] == [4, 2]
    assert set(found[0][0]) == {"a", "b"}


def test_from_tf() -> None:
    source = tf.data.Dataset.from_tensor_slices({"x": [1, 2, 3]})
    assert skate.data.from_tf(source).sum("x") == 6


def test_tensorflow_reads_our_tfrecords(tmp_path: Path) -> None:
    skate.data.from_items([{"i": 7, "s": "text"}]).write_tfrecords(tmp_path)
    (path,) = map(str, tmp_path.iterdir())
    (record,) = tf.data.TFRecordDataset(path)
    features = tf.train.Example.FromString(record.numpy()).features.feature
    assert features["i"].int64_list.value[0] == 7
    assert features["s"].bytes_list.value[0] == b"text"


# -- to_tf: which columns ------------------------------------------------------------------------


def test_columns_that_nobody_asked_for_may_be_of_any_type() -> None:
    dataset = table(
        f=[1.0, 2.0],
        when=[datetime.datetime(2020, 1, 1)] * 2,
        name=["a", None],
        price=[Decimal("1.5")] * 2,
        nested=[{"a": 1}] * 2,
    )
    ((features, labels),) = dataset.to_tf("f", "y", batch_size=2)
    assert (features.numpy().tolist(), labels.numpy().tolist()) == ([1, 2], [0, 1])


def test_a_column_that_makes_no_tensor_is_named() -> None:
    with pytest.raises(TypeError, match="'when' is of type timestamp"):
        table(when=[datetime.datetime(2020, 1, 1)]).to_tf("when", "y")
    with pytest.raises(ValueError, match="'z'"):
        table(a=[1]).to_tf("z", "y")


def test_columns_by_other_names_and_more_groups() -> None:
    ((features, labels, more),) = numbers(2).to_tf(
        {"first": "a"}, ["y"], additional_columns="b", batch_size=2
    )
    assert features["first"].numpy().tolist() == [0, 1]
    assert labels["y"].numpy().tolist() == more.numpy().tolist() == [0, 1]


# -- to_tf: types --------------------------------------------------------------------------------

UNEVEN = [np.ones((size, size, 3), np.float32) for size in (2, 4, 2, 2)]


@pytest.mark.parametrize(
    ("column", "spec"),
    [
        ([1, 2], tf.TensorSpec((None,), tf.int64)),
        ([True, False], tf.TensorSpec((None,), tf.bool)),
        (["a", "b"], tf.TensorSpec((None,), tf.string)),
        (pa.array(["a", "b"]).dictionary_encode(), tf.TensorSpec((None,), tf.string)),
        (pa.array([1.0, None], pa.float32()), tf.TensorSpec((None,), tf.float32)),
        (pa.nulls(2), tf.TensorSpec((None,), tf.float64)),
        (pa.array([[1, 2]] * 2, pa.list_(pa.int32(), 2)), tf.TensorSpec((None, 2), tf.int32)),
        ([[1, 2], [3, 4]], tf.RaggedTensorSpec((None, None), tf.int64)),
        ([[1], []], tf.RaggedTensorSpec((None, None), tf.int64)),
        ([["a"], ["b", "c"]], tf.RaggedTensorSpec((None, None), tf.string)),
        ([[[1], [2, 3]], []], tf.RaggedTensorSpec((None, None, None), tf.int64)),
    ],
    ids=[
        "integers", "booleans", "text", "categories", "missing floats", "nothing", "fixed lists",
        "equal lists", "unequal lists", "lists of text", "lists of lists",
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 2])
def test_the_types_are_those_of_the_schema(column: Any, spec: Any, size: int) -> None:
    found = table(x=column).to_tf("x", "y", batch_size=size)
    described = found.element_spec[0]
    assert type(described) is type(spec)
    assert (described.shape.as_list(), described.dtype) == (spec.shape.as_list(), spec.dtype)
    rows = [row for features, _ in found for row in as_lists(features)]
    expected = column.to_pylist() if isinstance(column, pa.Array) else column
    np.testing.assert_equal(rows, [np.nan if row is None else row for row in expected])


def as_lists(tensor: Any) -> list[Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return value.decode() if isinstance(value, bytes) else value

    ragged = isinstance(tensor, tf.RaggedTensor)
    found: list[Any] = plain(tensor.to_list() if ragged else tensor.numpy().tolist())
    return found


@pytest.mark.parametrize("size", [1, 2, 4])
def test_arrays_of_unequal_shapes_are_ragged_in_every_batch(size: int) -> None:
    rows = [{"x": array, "y": 0} for array in UNEVEN]  # the last two are alike
    found = skate.data.from_items(rows, override_num_blocks=1).to_tf("x", "y", batch_size=size)
    assert found.element_spec[0] == tf.RaggedTensorSpec((None,) * 4, tf.float32)
    shapes = [np.shape(row.to_list()) for features, _ in found for row in features]
    assert shapes == [array.shape for array in UNEVEN]


def test_arrays_of_one_shape_are_dense() -> None:
    rows = [{"x": np.full((2, 3), n, np.float32), "y": n} for n in range(4)]
    found = skate.data.from_items(rows).to_tf("x", "y", batch_size=4)
    assert found.element_spec[0] == tf.TensorSpec((None, 2, 3), tf.float32, name="x")
    ((features, _),) = found
    assert features.numpy()[:, 0, 0].tolist() == [0, 1, 2, 3]


def test_a_spec_makes_lists_of_equal_length_dense_and_changes_types() -> None:
    spec = tf.TensorSpec((None, 2), tf.float32)
    ((features, _),) = table(x=[[1, 2], [3, 4]]).to_tf(
        "x", "y", batch_size=2, feature_type_spec=spec
    )
    assert features.dtype == tf.float32
    assert features.numpy().tolist() == [[1, 2], [3, 4]]


def test_what_does_not_fit_the_spec_is_named() -> None:
    dense = tf.TensorSpec((None, 2), tf.int64)
    uneven = table(x=[[1, 2], [3]]).to_tf("x", "y", batch_size=2, feature_type_spec=dense)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'x'.*RaggedTensorSpec"):
        list(uneven)
    missing = table(x=pa.array([1, None])).to_tf("x", "y", batch_size=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'x' has missing values"):
        list(missing)
    with pytest.raises(ValueError, match=r"one for each of \['a', 'b'\]"):
        numbers().to_tf(["a", "b"], "y", feature_type_spec=dense)


# -- to_tf: what it computes ---------------------------------------------------------------------


def counted(tally: Tally) -> Dataset:
    def count(batch: Any) -> Any:
        tally.add()
        return batch

    return skate.data.range(8, override_num_blocks=4).map_batches(count, batch_size=2)


def test_an_epoch_computes_each_block_once(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "tally")
    spec = tf.TensorSpec((None,), tf.int64)
    found = counted(tally).to_tf(
        "id", "id", batch_size=2, feature_type_spec=spec, label_type_spec=spec
    )
    assert tally.words() == []
    assert sum(1 for _ in found) == 4
    assert len(tally.words()) == 4


def test_a_part_of_a_split_is_described_without_the_others() -> None:
    dataset = skate.data.range(8).map_batches(lambda batch: batch)
    for part in dataset.streaming_split(2, equal=True):
        assert part.to_tf("id", "id").element_spec[0].dtype == tf.int64  # nobody reads yet


def test_a_dataset_without_rows_needs_specs() -> None:
    empty = skate.data.from_items([])
    with pytest.raises(ValueError, match="at least one row"):
        empty.to_tf("x", "y")


# -- to_tf with a signature ----------------------------------------------------------------------


def test_columns_side_by_side() -> None:
    one, label = tf.TensorSpec((None, 1), tf.float32), tf.TensorSpec((None,), tf.int64)
    both = tf.TensorSpec((None, 2), tf.float32)

    def first(signature: Any, **columns: Any) -> Any:
        found = numbers().to_tf(
            output_signature=signature, batch_size=3, prefetch_blocks=1, **columns
        )
        return next(iter(found))

    features, labels = first((both, label), label_column="y")
    assert features.numpy().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert labels.numpy().tolist() == [0, 1, 0]
    assert first(one, feature_columns=["a"]).shape == (3, 1)
    pair = first([one, both], feature_columns=[["a"], ["a", "b"]])
    assert [part.shape[1] for part in pair] == [1, 2]
    parts = first({"left": one}, feature_columns={"left": ["b"]})
    assert parts["left"].numpy().tolist() == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"feature_columns": ["a"]}, "label_columns, or output_signature"),
        ({"feature_columns": "a", "label_columns": "y", "label_column": "y"}, "label_columns"),
        ({"output_signature": 1, "label_columns": "y"}, "got also label_columns"),
        ({"output_signature": 1, "feature_type_spec": 1}, "got also feature_type_spec"),
        (
            {"feature_columns": "a", "label_columns": "y", "additional_type_spec": 1},
            "additional_columns",
        ),
    ],
)
def test_arguments_of_two_forms_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        numbers().to_tf(**arguments)
