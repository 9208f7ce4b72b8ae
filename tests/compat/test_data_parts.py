"""`ray.data.tests` and what programs take from the inside of Ray's data library."""

import os

import pytest

from skate.compat import ray as compat


@pytest.fixture(autouse=True)
def as_ray():
    compat.install()
    yield
    compat.uninstall()


def test_fixtures_and_helpers_can_be_imported():
    import ray.data.tests.conftest as fixtures
    from ray.data.tests.conftest import restore_data_context, target_max_block_size  # noqa: F401
    from ray.data.tests.test_util import ConcurrencyCounter
    from ray.data.tests.util import (
        Counter,
        column_udf,
        extract_values,
        gen_bin_files,
        named_values,
    )

    assert "ds_pandas_multi_column_format" in fixtures.__all__
    assert named_values(["a", "b"], [(1, 2)]) == [{"a": 1, "b": 2}]
    assert extract_values("a", named_values("a", [1, 2])) == [1, 2]
    assert column_udf("a", abs)({"a": -1, "b": 0}) == {"a": 1}
    assert hasattr(Counter, "remote")
    assert hasattr(ConcurrencyCounter, "remote")
    with gen_bin_files(2) as (folder, paths):
        assert sorted(os.listdir(folder)) == ["0.bin", "1.bin"]
        assert os.path.getsize(paths[1]) == 500


def test_what_is_unknown_fails_when_it_is_used():
    from ray.data._internal.planner.planner import Planner
    from ray.data.datasource.csv_datasource import CSVDatasource
    from ray.data.tests.conftest import CoreExecutionMetrics

    class Slow(CSVDatasource):
        def first(self, number: Planner[int] | None) -> None: ...

    for absent in (Planner, CoreExecutionMetrics, Slow):
        with pytest.raises(NotImplementedError, match="inside of Ray"):
            absent()


def test_small_helpers():
    import pandas as pd
    import pyarrow as pa
    from ray._private.arrow_utils import get_pyarrow_version
    from ray.data._internal.arrow_ops.transform_pyarrow import MIN_PYARROW_VERSION_TYPE_PROMOTION
    from ray.data._internal.delegating_block_builder import DelegatingBlockBuilder
    from ray.data._internal.util import rows_same
    from ray.data.datasource.path_util import _unwrap_protocol
    from ray.data.extensions.tensor_extension import ArrowTensorArray, TensorArray

    assert get_pyarrow_version() >= MIN_PYARROW_VERSION_TYPE_PROMOTION
    one, other = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [2, 1]})
    assert rows_same(one, other)
    assert not rows_same(one, other.iloc[:1])
    assert _unwrap_protocol("s3://a/b") == "a/b"
    builder = DelegatingBlockBuilder()
    builder.add({"a": 1})
    builder.add_block(pa.table({"a": [2]}))
    assert builder.num_rows() == 2
    assert builder.build().to_pydict() == {"a": [1, 2]}
    assert len(ArrowTensorArray.from_numpy([[1, 2]])) == len(TensorArray([[1, 2]])) == 1
