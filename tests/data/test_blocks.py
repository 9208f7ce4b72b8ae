"""Values to Arrow and back: what a user puts in is what comes out."""

import pickle

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import torch

from skate.data._arrow.blocks import (
    batch_of,
    block_of_batch,
    block_of_pandas,
    block_of_rows,
    compact,
    concat,
    numpy_of,
    pandas_of,
    rows_of,
)
from skate.data._arrow.tensors import is_fixed_tensor, is_object, is_ragged_tensor
from skate.data.block import VALID_BATCH_FORMATS, BlockAccessor, DataBatch, UserDefinedFunction


def column_type(block, name="x"):
    return block.schema.field(name).type


@pytest.mark.parametrize(
    "rows",
    [
        [1, 2, 3],
        ["a", None, "c"],
        [b"a", b""],
        [True, False],
        [1.5, None],
        [[1, 2], [3]],
        [{"a": 1}, {"a": 2}],
        [{"a": 1, "b": {"c": "x"}}],
        [{"a": 1}, {"a": None}],
    ],
    ids=str,
)
def test_rows_come_back_as_they_were(rows):
    assert list(rows_of(block_of_rows(rows))) == rows


def test_rows_with_different_keys_are_filled_with_none():
    block = block_of_rows([{"a": 1}, {"b": 2}])
    assert list(rows_of(block)) == [{"a": 1, "b": None}, {"a": None, "b": 2}]


def test_a_mixture_of_dictionaries_and_plain_values_is_an_error():
    with pytest.raises(TypeError, match="all dictionaries or all plain"):
        block_of_rows([{"a": 1}, 2])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float32", "float64"])
def test_arrays_of_one_shape_are_arrows_tensors(dtype):
    array = np.arange(12).reshape(3, 2, 2).astype(dtype)
    block = block_of_batch({"x": array})
    assert is_fixed_tensor(column_type(block))
    back = numpy_of(block)["x"]
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    np.testing.assert_array_equal(numpy_of(block.slice(1, 1))["x"], array[1:2])


def test_a_column_of_numbers_is_a_view_not_a_copy():
    array = np.arange(1000.0)
    assert np.shares_memory(numpy_of(block_of_batch({"x": array}))["x"], array)


def test_a_tensor_column_is_a_view_not_a_copy():
    array = np.zeros((10, 3))
    assert np.shares_memory(numpy_of(block_of_batch({"x": array}))["x"], array)


def test_arrays_of_several_shapes_are_ragged_tensors():
    arrays = [np.ones((2, 3)), np.zeros((1, 2)), np.full((4, 1), 7.0)]
    block = block_of_rows([{"x": array} for array in arrays])
    assert is_ragged_tensor(column_type(block))
    for order in ([0, 1, 2], [2, 0], [1]):
        rows = list(rows_of(block.take(order)))
        for row, number in zip(rows, order, strict=True):
            np.testing.assert_array_equal(row["x"], arrays[number])
    sliced = list(rows_of(compact(block.slice(1, 2))))
    np.testing.assert_array_equal(sliced[1]["x"], arrays[2])


def test_ragged_tensors_survive_a_pickle():
    block = block_of_rows([np.ones(2), np.ones(3)])
    back = pickle.loads(pickle.dumps(block))
    assert [len(row) for row in rows_of(back)] == [2, 3]


def test_missing_tensors():
    rows = [{"x": np.ones(2)}, {"x": None}]
    back = list(rows_of(block_of_rows(rows)))
    assert back[1]["x"] is None
    np.testing.assert_array_equal(back[0]["x"], np.ones(2))


def test_torch_tensors_become_arrays():
    block = block_of_rows([{"x": torch.ones(2, 2, requires_grad=True)}] * 2)
    assert is_fixed_tensor(column_type(block))
    assert numpy_of(block)["x"].shape == (2, 2, 2)


def test_scalar_tensors_become_numbers():
    assert list(rows_of(block_of_rows([torch.tensor(3), torch.tensor(4)]))) == [3, 4]


def test_numpy_scalars_keep_their_type():
    assert column_type(block_of_rows([{"x": np.int32(1)}, {"x": np.int32(2)}])) == pa.int32()


def test_any_other_object_is_pickled():
    block = block_of_rows([{"x": 1 + 2j}, {"x": None}])
    assert is_object(column_type(block))
    assert list(rows_of(block)) == [{"x": 1 + 2j}, {"x": None}]


def test_values_of_mixed_types_are_kept():
    assert list(rows_of(block_of_rows([1, "a", 2.5]))) == [1, "a", 2.5]


def test_zero_size_tensors():
    back = list(rows_of(block_of_rows([{"x": np.zeros((2, 0))}])))
    assert back[0]["x"].shape == (2, 0)


def test_numbers_with_none_become_nan_in_numpy():
    values = numpy_of(block_of_rows([{"x": 1}, {"x": None}]))["x"]
    assert values[0] == 1
    assert np.isnan(values[1])


@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow", "polars"])
def test_a_batch_in_each_format_and_back(batch_format):
    block = block_of_rows([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    batch = batch_of(block, batch_format)
    kinds = {
        "numpy": dict,
        "pandas": pd.DataFrame,
        "pyarrow": pa.Table,
        "polars": polars.DataFrame,
    }
    assert isinstance(batch, kinds[batch_format])
    assert list(rows_of(block_of_batch(batch))) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_tensors_are_cells_in_pandas_and_come_back():
    block = block_of_batch({"x": np.ones((3, 2)), "y": np.arange(3)})
    frame = pandas_of(block)
    assert list(frame.columns) == ["x", "y"]
    assert frame["x"][0].shape == (2,)
    assert is_fixed_tensor(column_type(block_of_batch(frame)))


def test_text_of_pandas_has_the_type_of_other_text(monkeypatch):
    wide = pa.array(["a", None], pa.large_string())
    frames = [
        pd.DataFrame({"s": ["a", None]}, dtype=dtype)
        for dtype in ("string", object, pd.ArrowDtype(pa.large_string()))
    ]
    found = [block_of_pandas(frame)["s"].type for frame in frames]
    assert found == [pa.string(), pa.string(), pa.large_string()]
    kept = block_of_pandas(frames[0], pa.table({"s": wide}))
    assert kept["s"].type == pa.large_string()
    monkeypatch.setattr("skate.data._arrow.blocks._MOST_TEXT", 1)
    assert block_of_pandas(frames[0])["s"].to_pylist() == ["a", None]


def test_a_list_is_a_batch_of_plain_values():
    assert list(rows_of(block_of_batch(["a", "b"]))) == ["a", "b"]


def test_columns_of_unequal_length_are_an_error_that_says_so():
    with pytest.raises(ValueError, match=r"differ in length: \{'a': 2, 'b': 3\}"):
        block_of_batch({"a": [1, 2], "b": [1, 2, 3]})


@pytest.mark.parametrize("wrong", [3, "text", None])
def test_what_is_no_batch_is_an_error_that_shows_it(wrong):
    with pytest.raises(ValueError, match=type(wrong).__name__):
        block_of_batch(wrong)


def test_a_number_is_no_column():
    with pytest.raises(ValueError, match="column 'a'"):
        block_of_batch({"a": 3})


class TestConcat:
    def test_numbers_of_two_types(self):
        blocks = [block_of_rows([{"x": 1}]), block_of_rows([{"x": 1.5}])]
        assert list(rows_of(concat(blocks))) == [{"x": 1.0}, {"x": 1.5}]

    def test_an_absent_column(self):
        blocks = [block_of_rows([{"x": 1}]), block_of_rows([{"x": 2, "y": "a"}])]
        assert list(rows_of(concat(blocks))) == [{"x": 1, "y": None}, {"x": 2, "y": "a"}]

    def test_tensors_of_two_shapes(self):
        blocks = [block_of_batch({"x": np.ones((2, n))}) for n in (1, 2)]
        joined = concat(blocks)
        assert is_ragged_tensor(column_type(joined))
        assert [len(row["x"]) for row in rows_of(joined)] == [1, 1, 2, 2]

    def test_types_that_do_not_fit(self):
        blocks = [block_of_rows([{"x": 1}]), block_of_rows([{"x": "a"}])]
        assert [row["x"] for row in rows_of(concat(blocks))] == [1, "a"]


def test_a_slice_does_not_carry_the_whole():
    block = block_of_batch({"x": np.arange(1_000_000)})
    assert len(pickle.dumps(compact(block.slice(5, 10)))) < 10_000


def test_blocks_with_thousands_of_columns_each_their_own():
    blocks = [pa.table({f"{block}_{n}": [n] for n in range(4000)}) for block in range(2)]
    joined = concat(blocks)
    assert joined.num_rows == 2
    assert joined.column_names == [*blocks[0].column_names, *blocks[1].column_names]
    assert joined["1_7"].to_pylist() == [None, 7]


def test_names_for_annotations():
    def applied(function: UserDefinedFunction, batch: DataBatch) -> DataBatch:
        return function(batch)

    batch = BlockAccessor.for_block({"a": np.ones(2)}).to_batch_format("numpy")
    assert applied(dict, batch).keys() == {"a"}
    assert {None, "numpy", "pandas", "pyarrow"} <= set(VALID_BATCH_FORMATS)


class TestWholeNumbersWithGaps:
    """pandas has fractions for them; what comes back unchanged is made whole again."""

    gaps = pa.table({"x": pa.array([2, None, 4], pa.int32())})

    def back(self, change) -> pa.ChunkedArray:
        return block_of_pandas(change(self.gaps.to_pandas()), self.gaps)["x"]

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (lambda frame: frame, [2, None, 4]),
            (lambda frame: frame.assign(y=1), [2, None, 4]),
            (lambda frame: frame[frame.x != 2], [None, 4]),
            (lambda frame: frame[frame.x > 2], [4]),
            (lambda frame: frame.sort_values("x", ascending=False), [4, 2, None]),
        ],
    )
    def test_unchanged(self, change, expected):
        column = self.back(change)
        assert column.type == pa.int32()
        assert column.to_pylist() == expected

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (lambda frame: frame.assign(x=frame.x / 2), [1.0, None, 2.0]),
            (lambda frame: frame.assign(x=frame.x.fillna(frame.x.mean())), [2.0, 3.0, 4.0]),
            (lambda frame: frame.assign(x=frame.x.mean()), [3.0, 3.0, 3.0]),
            (lambda frame: frame.groupby("x").mean().reset_index(), [2.0, 4.0]),
            (lambda frame: frame.set_index("x", drop=False), [2.0, None, 4.0]),
            (lambda frame: frame.set_index(frame.x.fillna(9).astype(int)), [2.0, None, 4.0]),
        ],
    )
    def test_changed(self, change, expected):
        column = self.back(change)
        assert column.type == pa.float64()
        assert column.to_pylist() == expected

    def test_numbers_that_no_fraction_has(self):
        large = pa.table({"x": [2**60 + 1, None]})
        assert block_of_pandas(large.to_pandas(), large).equals(large)
