"""Views of Arrow are read as the plain types that every kernel knows."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from skate.data.expressions import col

pytestmark = pytest.mark.usefixtures("engine")


class TestViewsOfArrow:
    TABLE = pa.table(
        {
            "s": pa.array(["b", "a", None], pa.string_view()),
            "b": pa.array([b"b", b"a", None], pa.binary_view()),
            "l": pa.array([[1, 2], None, [3]], pa.list_view(pa.int64())),
            "ll": pa.array([["x"], [], None], pa.large_list_view(pa.string_view())),
            "st": pa.array([{"x": "b"}, {"x": "a"}, None], pa.struct([("x", pa.string_view())])),
            "ls": pa.array([["x"], ["y"], []], pa.list_(pa.string_view())),
            "m": pa.array([[("k", "v")], [], None], pa.map_(pa.string_view(), pa.string_view())),
            "d": pa.DictionaryArray.from_arrays(
                pa.array([0, 1, None]), pa.array(["b", "a"], pa.string_view())
            ),
            "n": [1, 2, 3],
        }
    )
    PLAIN: ClassVar = {
        "s": pa.string(), "b": pa.binary(), "l": pa.list_(pa.int64()),
        "ll": pa.large_list(pa.string()), "st": pa.struct([("x", pa.string())]),
        "ls": pa.list_(pa.string()), "m": pa.map_(pa.string(), pa.string()),
        "d": pa.string(), "n": pa.int64(),
    }  # fmt: skip

    @pytest.mark.parametrize("how", ["arrow", "slice", "parquet", "filtered", "map"])
    def test_are_read_as_plain_types(self, tmp_path: Path, how: str) -> None:
        table = self.TABLE
        if how in ("parquet", "filtered"):
            table = table.drop_columns(["d"])  # which Arrow does not write
            pq.write_table(table, tmp_path / "a.parquet")
            rows = skate.data.read_parquet(str(tmp_path))
            rows = rows.filter(expr="n < 9") if how == "filtered" else rows
        elif how == "map":
            rows = skate.data.range(1).map_batches(lambda _: table, batch_format="pyarrow")
        else:
            rows = skate.data.from_arrow(pa.concat_tables([table, table]).slice(3))
            if how == "slice":
                rows = skate.data.from_arrow(table.slice(1, 2))
                table = table.slice(1, 2)
        assert rows.take_all() == table.to_pylist()
        schema = rows.schema()
        assert schema is not None
        found = dict(zip(schema.names, schema.types, strict=True))
        assert found == {name: self.PLAIN[name] for name in table.column_names}

    def test_of_which_every_kernel_works(self) -> None:
        rows = skate.data.from_arrow(self.TABLE)
        assert [row["n"] for row in rows.sort("s").take_all()] == [2, 1, 3]
        assert rows.groupby("s").count().count() == 3
        assert rows.filter(expr="s == 'a'").count() == 1
        assert set(rows.unique("s")) == {"a", "b", None}


class Celsius(pa.ExtensionType):
    """A type of another library, as Arrow's documentation makes one: without a hash."""

    def __init__(self) -> None:
        super().__init__(pa.float64(), "tests.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
        return cls()


def test_columns_of_a_type_of_another_library(engine: str) -> None:
    warm = pa.ExtensionArray.from_storage(Celsius(), pa.array([20.5, None]))
    dataset = skate.data.from_arrow(pa.table({"t": warm, "n": [1, 2]}))
    (batch,) = dataset.iter_batches(batch_size=None)
    assert batch["t"][0] == 20.5
    assert batch["n"].tolist() == [1, 2]
    assert dataset.to_pandas()["n"].tolist() == [1, 2]
    doubled = dataset.map_batches(lambda rows: {"n": rows["n"] * 2})
    assert [row["n"] for row in doubled.take_all()] == [2, 4]


class TestTensorsOfArrow:
    """Arrow says of all tensors that it makes of NumPy's how they are permuted."""

    @pytest.fixture(params=["in order", "transposed", "of one dimension"])
    def numbers(self, request):
        numbers = np.arange(24.0).reshape(2, 3, 4)
        if request.param == "of one dimension":
            return numbers[0]
        return numbers if request.param == "in order" else numbers.transpose(0, 2, 1)

    def test_rows_are_as_they_were(self, numbers):
        tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(numbers)
        table = pa.table({"x": tensors, "n": range(len(numbers))})
        ds = skate.data.from_arrow([table, table.slice(1)])
        ds = ds.union(skate.data.range(1).map_batches(lambda batch: table, batch_size=None))
        found = [row["x"] for row in ds.filter(expr=col("n") >= 1).take_all()]
        np.testing.assert_array_equal(found, [*numbers[1:]] * 3)
        assert ds.filter(expr=col("n") < 0).take_all() == []

    def test_files(self, numbers, tmp_path):
        tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(numbers)
        pq.write_table(pa.table({"x": tensors}), tmp_path / "a.parquet")
        ds = skate.data.read_parquet(str(tmp_path))
        np.testing.assert_array_equal([row["x"] for row in ds.take_all()], numbers)
        assert ds.limit(0).take_all() == []
        assert ds.schema().types == ds.materialize().schema().types

    def test_missing_ones(self):
        tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(
            np.arange(6).reshape(1, 3, 2).transpose(0, 2, 1)
        )
        storage = pa.array([tensors.storage[0].as_py(), None], tensors.type.storage_type)
        table = pa.table({"x": pa.ExtensionArray.from_storage(tensors.type, storage)})
        first, second = skate.data.from_arrow(table).take_all()
        assert first["x"].tolist() == [[0, 2, 4], [1, 3, 5]]
        assert second["x"] is None
