"""Columns of tensors under the names that Ray gives them, in Arrow and in pandas; DataType."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate.data
from skate.data import DataContext, Schema
from skate.data.datatype import DataType, TypeCategory
from skate.data.extensions import (
    ArrowConversionError,
    ArrowPythonObjectArray,
    ArrowPythonObjectType,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
    TensorArray,
    TensorDtype,
)

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]

CUBES = np.arange(24).reshape(3, 2, 4)
RAGGED = [np.ones((2, 2)), np.ones((3, 1))]


class TestArrow:
    def test_of_one_shape(self):
        column = ArrowTensorArray.from_numpy(CUBES)
        assert column.type == ArrowTensorType((2, 4), pa.int64())
        assert isinstance(column.type, ArrowTensorTypeV2)
        assert isinstance(column, ArrowTensorArray)
        assert not isinstance(pa.array([1]), ArrowTensorArray)
        dataset = skate.data.from_arrow(pa.table({"t": column}))
        np.testing.assert_array_equal(dataset.take_batch()["t"], CUBES)

    def test_of_several_shapes(self):
        column = ArrowVariableShapedTensorArray.from_numpy(RAGGED)
        assert isinstance(column.type, ArrowVariableShapedTensorType)
        assert column.type == ArrowVariableShapedTensorType(pa.float64(), 2)
        assert column.type.scalar_type == pa.float64()
        with pytest.raises(ArrowConversionError, match="same number of dimensions"):
            ArrowTensorArray.from_numpy([np.ones(2), np.ones((2, 2))])

    def test_objects(self):
        column = ArrowPythonObjectArray.from_objects([{1}, object])
        assert isinstance(column.type, ArrowPythonObjectType)
        assert skate.data.from_arrow(pa.table({"o": column})).take(1) == [{"o": {1}}]

    def test_the_setting(self):
        make = DataContext.get_current().arrow_fixed_shape_tensor_format.to_type()
        expected = Schema(pa.schema([("data", make((1,), pa.int64()))]))
        assert skate.data.range_tensor(2).schema() == expected


class TestPandas:
    def test_a_column_of_a_frame(self):
        frame = pd.DataFrame({"n": range(3), "t": TensorArray(CUBES)})
        assert frame["t"].dtype == TensorDtype((2, 4), np.int64)
        assert str(frame["t"].dtype) == "numpy.ndarray(shape=(2, 4), dtype=int64)"
        np.testing.assert_array_equal(frame["t"][1], CUBES[1])
        np.testing.assert_array_equal(frame["t"][frame["n"] > 0].to_numpy(), CUBES[1:])
        np.testing.assert_array_equal((2 * frame["t"] + 1).to_numpy(), 2 * CUBES + 1)
        np.testing.assert_array_equal(frame["t"].sum(), CUBES.sum(axis=0))
        joined = pd.concat([frame, frame], ignore_index=True)
        assert joined["t"].dtype == frame["t"].dtype

    def test_several_shapes(self):
        array = TensorArray(RAGGED)
        assert array.is_variable_shaped
        series = pd.Series(RAGGED).astype(TensorDtype(None, np.float64))
        np.testing.assert_array_equal(series[1], RAGGED[1])

    @pytest.mark.parametrize("tensors", [CUBES, RAGGED], ids=["one shape", "several shapes"])
    def test_through_a_dataset(self, tensors, tmp_path):
        frame = pd.DataFrame({"n": range(len(tensors)), "t": TensorArray(tensors)})
        dataset = skate.data.from_pandas(frame).map_batches(
            lambda frame: frame + 1, batch_size=2, batch_format="pandas"
        )
        dataset.write_parquet(tmp_path)
        for found in (dataset, skate.data.read_parquet(tmp_path)):
            for row, tensor in zip(found.take_all(), tensors, strict=True):
                np.testing.assert_array_equal(row["t"], tensor + 1)


class TestDataType:
    def test_kinds(self):
        lists = DataType.list(DataType.int64())
        assert lists.is_list_type()
        assert lists.is_nested_type()
        assert lists.is_of(TypeCategory.LIST)
        assert not lists.is_of("no such category")
        assert DataType.tensor((2,), DataType.int8()).is_tensor_type()
        assert DataType.variable_shaped_tensor(DataType.int8()).is_of("tensor")
        assert DataType.from_numpy("uint64").is_uint64_type()
        assert DataType(str).is_string_type()
        assert DataType.binary().is_binary_type()

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [(DataType.int8(), True), (DataType(complex), True), (DataType.from_numpy("f4"), True),
         (DataType.from_arrow(pa.decimal128(3)), True), (DataType.bool(), False),
         (DataType(str), False)],
    )  # fmt: skip
    def test_numbers(self, kind, expected):
        assert kind.is_numerical_type() is expected

    def test_times(self):
        assert DataType.temporal("timestamp", "ms", tz="UTC").is_temporal_type()
        assert DataType.temporal("time64").to_arrow_dtype() == pa.time64("us")
        with pytest.raises(ValueError, match=r"unit of time32 is one of \['s', 'ms'\]; got 'ns'"):
            DataType.temporal("time32", "ns")
        with pytest.raises(ValueError, match="got 'week'"):
            DataType.temporal("week")

    def test_equal_if_of_the_same_library(self):
        assert DataType.int64() == DataType.from_arrow(pa.int64())
        assert DataType.int64() != DataType.from_numpy("int64")
        assert repr(DataType(int)) == "DataType(python:int)"
        assert DataType(int).to_numpy_dtype() == np.dtype(object)
