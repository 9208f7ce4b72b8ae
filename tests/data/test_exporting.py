"""Datasets as frames, tables and references of others."""

import pandas as pd
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


def test_references_to_blocks():
    dataset = skate.data.range(6, override_num_blocks=3)
    assert sum(len(table) for table in skate.get(dataset.get_internal_block_refs())) == 6
    bundles = list(dataset.iter_internal_ref_bundles())
    assert [bundle.num_rows() for bundle in bundles] == [2, 2, 2]
    assert bundles[0].metadata[0].size_bytes > 0


def test_dask():
    frame = skate.data.range(10).to_dask()
    assert int(frame["id"].sum().compute(scheduler="synchronous")) == 45
    import dask.dataframe

    given = dask.dataframe.from_pandas(pd.DataFrame({"a": [1, 2, 3]}), npartitions=2)
    assert skate.data.from_dask(given).sum("a") == 6
