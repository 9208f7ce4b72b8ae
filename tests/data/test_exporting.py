"""Datasets as frames, tables and references of others."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate
import skate.data
from skate import data

pytestmark = pytest.mark.usefixtures("engine")


def test_references_to_blocks():
    dataset = skate.data.range(6, override_num_blocks=3)
    assert sum(len(table) for table in skate.get(dataset.get_internal_block_refs())) == 6
    bundles = list(dataset.iter_internal_ref_bundles())
    assert [bundle.num_rows() for bundle in bundles] == [2, 2, 2]
    assert bundles[0].metadata[0].size_bytes > 0
    assert [skate.get(entry.ref).num_rows for entry in bundles[0].blocks] == [2]


def test_dask():
    frame = skate.data.range(10).to_dask()
    assert int(frame["id"].sum().compute(scheduler="synchronous")) == 45
    import dask.dataframe

    given = dask.dataframe.from_pandas(pd.DataFrame({"a": [1, 2, 3]}), npartitions=2)
    assert skate.data.from_dask(given).sum("a") == 6


def test_to_pandas():
    frame = skate.data.range(3).to_pandas()
    assert frame["id"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="limit, 2"):
        skate.data.range(3).to_pandas(limit=2)


def test_references_out():
    tables = skate.get(skate.data.range(4).to_arrow_refs())
    assert pa.concat_tables(tables)["id"].to_pylist() == [0, 1, 2, 3]
    arrays = skate.get(skate.data.range(4).to_numpy_refs(column="id"))
    assert np.concatenate(arrays).tolist() == [0, 1, 2, 3]


@pytest.mark.engines("inline")
class TestArrowStream:
    def test_blocks_go_one_by_one(self) -> None:
        rows = data.range(10, override_num_blocks=4)
        reader = pa.RecordBatchReader.from_stream(rows)
        assert [batch.num_rows for batch in reader] == list(rows._block_num_rows())
        assert pa.table(rows)["id"].to_pylist() == list(range(10))

    def test_blocks_of_other_columns_and_types(self) -> None:
        both = data.from_items([{"a": 1}]).union(data.from_items([{"a": 2.5, "b": "x"}]))
        assert pa.table(both).to_pydict() == {"a": [1.0, 2.5], "b": [None, "x"]}

    def test_no_rows(self) -> None:
        assert pa.table(data.from_items([{"a": 1}]).filter(expr="a > 1")).num_rows == 0


@pytest.mark.engines("inline")
def test_a_limit_of_rows_runs_the_plan_once():
    seen = []
    dataset = skate.data.range(10).map(lambda row: seen.append(row["id"]) or row)
    assert len(dataset.to_pandas(limit=10)) == 10
    assert len(seen) == 10
    with pytest.raises(ValueError, match="limit, 3"):
        dataset.to_pandas(limit=3)


@pytest.mark.engines("inline")
def test_references_to_arrays():
    refs = skate.data.range(10, override_num_blocks=2).to_numpy_refs(column="id")
    assert [skate.get(ref).tolist() for ref in refs] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
