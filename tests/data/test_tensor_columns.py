"""Columns of tensors under the names that Ray gives them, in Arrow and in pandas."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate.data
from skate.data import DataContext, Schema
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
        for nothing in (object(), np.array([])):
            with pytest.raises(ValueError, match="a list or an array that is not empty"):
                ArrowVariableShapedTensorArray.from_numpy(nothing)

    @pytest.mark.parametrize("in_chunks", [False, True])
    def test_entries_of_several_shapes_are_arrays(self, in_chunks):
        column = ArrowVariableShapedTensorArray.from_numpy(RAGGED)
        if in_chunks:
            column = pa.chunked_array([column.slice(0, 1), column.slice(1)])
        for number, tensor in enumerate(RAGGED):
            np.testing.assert_array_equal(column[number], tensor)
            np.testing.assert_array_equal(column.to_pylist()[number], tensor)
        part = column[1:] if not in_chunks else column.chunk(1)
        assert part.to_numpy().shape == (1,)
        np.testing.assert_array_equal(part.to_numpy()[0], RAGGED[1])
        np.testing.assert_array_equal(next(iter(part)), RAGGED[1])

    def test_without_numbers(self):
        empty = np.zeros((2, 0, 3), np.float32)
        dataset = skate.data.from_numpy(empty).map_batches(lambda batch: batch)
        batch = dataset.take_batch()["data"]
        assert (batch.shape, batch.dtype) == ((2, 0, 3), np.float32)

    @pytest.mark.parametrize("shape", [(0, 0), (0, 3, 0), (2, 0), (2, 3, 0)])
    def test_without_numbers_or_rows(self, shape):
        column = ArrowTensorArray.from_numpy(np.zeros(shape, np.float32))
        assert (len(column), column.type.value_type) == (shape[0], pa.float32())
        assert skate.data.from_numpy(np.zeros(shape)).count() == shape[0]
        if shape[0]:
            assert column.to_numpy().shape == shape

    def test_missing_numbers_are_nan(self):
        some = np.array([[1, 2], [3, None]], object)
        column = ArrowTensorArray.from_numpy(some)
        np.testing.assert_array_equal(column.to_numpy_ndarray(), [[1, 2], [3, np.nan]])
        ragged = ArrowVariableShapedTensorArray.from_numpy([some[1], np.ones(3)]).to_numpy()
        np.testing.assert_array_equal(ragged[0], [3, np.nan])
        with pytest.raises(ArrowConversionError):
            ArrowTensorArray.from_numpy([np.array([object(), 1], object)])

    def test_objects(self):
        column = ArrowPythonObjectArray.from_objects([{1}, object])
        assert isinstance(column.type, ArrowPythonObjectType)
        assert skate.data.from_arrow(pa.table({"o": column})).take(1) == [{"o": {1}}]

    def test_objects_in_pandas(self):
        table = pa.table({"o": ArrowPythonObjectArray.from_objects([object, None]), "n": [1, 2]})
        frame = table.to_pandas()
        assert list(frame["o"]) == list(table["o"].to_pandas()) == [object, None]
        assert skate.data.from_pandas(frame).take_all()[0] == {"o": object, "n": 1}

    def test_the_setting(self):
        make = DataContext.get_current().arrow_fixed_shape_tensor_format.to_type()
        expected = Schema(pa.schema([("data", make((1,), pa.int64()))]))
        assert skate.data.range_tensor(2).schema() == expected


class TestPandas:
    def test_a_column_of_a_frame(self):
        frame = pd.DataFrame({"n": range(3), "t": TensorArray(CUBES)})
        assert frame["t"].dtype == TensorDtype((2, 4), np.int64)
        assert str(frame["t"].dtype) == "TensorDtype(shape=(2, 4), dtype=int64)"
        for name in (str(frame["t"].dtype), "numpy.ndarray(shape=(2, 4), dtype=int64)"):
            assert TensorDtype.construct_from_string(name) == frame["t"].dtype
        array = frame["t"].array
        assert (array.numpy_ndim, array.numpy_dtype) == (3, np.dtype(np.int64))
        np.testing.assert_array_equal(frame["t"][1], CUBES[1])
        np.testing.assert_array_equal(frame["t"][frame["n"] > 0].to_numpy(), CUBES[1:])
        np.testing.assert_array_equal((2 * frame["t"] + 1).to_numpy(), 2 * CUBES + 1)
        np.testing.assert_array_equal(frame["t"].sum(), CUBES.sum(axis=0))
        joined = pd.concat([frame, frame], ignore_index=True)
        assert joined["t"].dtype == frame["t"].dtype

    def test_reductions_are_those_of_pandas(self):
        series = pd.Series(TensorArray(CUBES))
        np.testing.assert_array_equal(series.std(), CUBES.std(axis=0, ddof=1))
        np.testing.assert_array_equal(series.var(ddof=0), CUBES.var(axis=0))
        np.testing.assert_array_equal(series.median(), np.median(CUBES, axis=0))

    def test_one_number_is_a_number(self):
        assert float(TensorArray(np.array([[[2.5]]]))) == 2.5

    def test_a_frame_shows_tensors_in_a_line(self):
        frame = pd.DataFrame({"t": TensorArray(CUBES[:, :, :2])})
        first, *_, last = repr(frame).splitlines()[1:]
        assert first.endswith(" [[0, 1], [4, 5]]")
        assert last.endswith(" [[16, 17], [20, 21]]")

    def test_objects_are_no_tensors(self):
        with pytest.raises(TypeError, match="tensors hold numbers"):
            TensorArray([object(), object()])

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

    @pytest.mark.parametrize("tensors", [CUBES, RAGGED], ids=["one shape", "several shapes"])
    def test_a_table_of_a_frame_becomes_that_frame_again(self, tensors):
        frame = pd.DataFrame({"n": range(len(tensors)), "t": TensorArray(tensors)})
        back = pa.Table.from_pandas(frame).slice(1).to_pandas()
        pd.testing.assert_frame_equal(back, frame[1:].reset_index(drop=True))

    @pytest.mark.parametrize("tensors", [CUBES, RAGGED], ids=["one shape", "several shapes"])
    def test_columns_of_tensors_stay_such_if_the_settings_say_so(self, tensors):
        frame = pd.DataFrame({"n": range(len(tensors)), "t": TensorArray(tensors)})
        kinds: list[object] = []

        def note(batch):
            kinds.append(batch["t"].dtype)
            return batch

        for casts in (True, False):
            settings = DataContext.get_current().copy()
            settings.enable_tensor_extension_casting = casts
            with DataContext.current(settings):
                found = skate.data.from_pandas(frame).map_batches(note, batch_format="pandas")
                kinds.append(found.to_pandas()["t"].dtype)
        assert kinds == [np.dtype(object)] * 2 + [frame["t"].dtype] * 2
