"""DataType."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skate.data.datatype import DataType, TypeCategory

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


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
        with pytest.raises(ValueError, match="time32 unit must be 's' or 'ms'; got 'ns'"):
            DataType.temporal("time32", "ns")
        with pytest.raises(ValueError, match="got 'week'"):
            DataType.temporal("week")

    def test_equal_if_of_the_same_library(self):
        assert DataType.int64() == DataType.from_arrow(pa.int64())
        assert DataType.int64() != DataType.from_numpy("int64")
        assert repr(DataType(int)) == "DataType(python:int)"
        assert repr(DataType.int64()) == "DataType(arrow:int64)"
        tensor = DataType.tensor((3, 4), DataType.float32())
        assert repr(tensor) == "DataType(arrow:numpy.ndarray(shape=(3, 4), dtype=float32))"
        assert DataType(int).to_numpy_dtype() == np.dtype(object)

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (pa.int8(), DataType.int8()),
            ("int32", DataType.from_numpy("int32")),
            (np.float32, DataType.from_numpy("float32")),
            (int, DataType(int)),
            (pd.ArrowDtype(pa.int16()), DataType.int16()),
            (pd.StringDtype("python"), DataType.string()),
            (pd.Int64Dtype(), DataType.from_numpy("int64")),
            (DataType.null(), DataType.null()),
            (None, None),
            ("no such type", None),
        ],
    )
    def test_types_of_other_libraries(self, given, expected):
        assert DataType.from_dtype(given) == expected

    def test_plain_types_say_what_they_are(self):
        assert "Arrow's bool" in DataType.bool.__doc__

    def test_what_is_no_type(self):
        with pytest.raises(TypeError, match=r"supports only PyArrow .*got 'int64'"):
            DataType("int64")
        with pytest.raises(ValueError, match="is not backed by a Python type"):
            DataType.int64().to_python_type()
