"""Names and types of columns, as far as they are known, and how they are printed."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
def test_the_type_of_python_objects_is_object():
    schema = skate.data.from_items([{"x": 2, "y": object(), "z": [1]}]).schema()
    assert schema.types == [pa.int64(), object, pa.list_(pa.int64())]
    assert "y: object" in schema.short()


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


def test_the_printed_schema():
    dataset = skate.data.range_tensor(2, shape=(32, 32, 3)).map_batches(
        lambda batch: {"tensor": batch["data"].astype("uint8")}
    )
    assert str(dataset.schema()) == (
        "Column  Type\n------  ----\ntensor  numpy.ndarray(shape=(32, 32, 3), dtype=uint8)"
    )


def test_text_in_an_array_without_axes_is_text():
    rows = skate.data.from_items([{"x": np.array("a")}, {"x": None}])
    assert rows.schema().types == [pa.string()]
    assert rows.take_all() == [{"x": "a"}, {"x": None}]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (np.zeros((1, 2, 2)), "numpy.ndarray(shape=(2, 2), dtype=float64)"),
        (np.zeros((1, 3, 3)), "numpy.ndarray(ndim=2, dtype=float64)"),
        (np.array(["a"]), "object"),
    ],
)
def test_the_schema_of_tensors_that_differ(other, text):
    both = skate.data.from_numpy(np.ones((1, 2, 2), "int64")).union(skate.data.from_numpy(other))
    assert str(both.schema()).splitlines()[-1].split(None, 1) == ["data", text]


def test_a_dataset_without_rows_and_columns():
    nothing = skate.data.range(2).map(lambda row: row).filter(lambda row: False).materialize()
    counted = f"num_blocks={nothing.num_blocks()}, num_rows=0"
    assert str(nothing) == f"MaterializedDataset({counted}, schema=Unknown schema)"


def test_schema_without_running():
    dataset = skate.data.range(3).map(lambda row: row)
    assert dataset.schema(fetch_if_missing=False) is None
    assert skate.data.range(3).schema(fetch_if_missing=False).names == ["id"]


def test_no_columns_are_a_schema_if_none_was_wanted(tmp_path):
    skate.data.range(3).write_parquet(tmp_path)
    chosen = skate.data.read_parquet(tmp_path, columns=[])
    assert (chosen.count(), chosen.schema().names) == (3, [])
    assert skate.data.range(3).select_columns([]).schema().names == []
    assert skate.data.from_items([]).schema() is None
