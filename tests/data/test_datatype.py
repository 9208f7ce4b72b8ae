"""DataType."""

import numpy as np
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
        with pytest.raises(ValueError, match=r"unit of time32 is one of \['s', 'ms'\]; got 'ns'"):
            DataType.temporal("time32", "ns")
        with pytest.raises(ValueError, match="got 'week'"):
            DataType.temporal("week")

    def test_equal_if_of_the_same_library(self):
        assert DataType.int64() == DataType.from_arrow(pa.int64())
        assert DataType.int64() != DataType.from_numpy("int64")
        assert repr(DataType(int)) == "DataType(python:int)"
        assert DataType(int).to_numpy_dtype() == np.dtype(object)
