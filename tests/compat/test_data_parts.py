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
    import ray.data.tests.mock_http_server as server
    from ray.data.tests.conftest import restore_data_context, target_max_block_size  # noqa: F401
    from ray.data.tests.test_util import ConcurrencyCounter
    from ray.data.tests.util import (
        Counter,
        column_udf,
        extract_values,
        gen_bin_files,
        named_values,
    )

    assert {"ds_pandas_multi_column_format", "tensor_format_context"} <= set(fixtures.__all__)
    assert {"http_file", "http_server"} <= set(server.__all__)
    assert named_values(["a", "b"], [(1, 2)]) == [{"a": 1, "b": 2}]
    assert extract_values("a", named_values("a", [1, 2])) == [1, 2]
    assert column_udf("a", abs)({"a": -1, "b": 0}) == {"a": 1}
    assert hasattr(Counter, "remote")
    assert hasattr(ConcurrencyCounter, "remote")
    with gen_bin_files(2) as (folder, paths):
        assert sorted(os.listdir(folder)) == ["0.bin", "1.bin"]
        assert os.path.getsize(paths[1]) == 500


def test_columns_of_tensors_are_joined():
    import numpy as np
    from ray.data._internal.tensor_extensions.arrow import (
        ArrowTensorArray,
        ArrowVariableShapedTensorType,
        concat_tensor_arrays,
        unify_tensor_arrays,
    )

    small, large = np.arange(4).reshape(1, 2, 2), np.arange(18).reshape(2, 3, 3)
    columns = [ArrowTensorArray.from_numpy(array) for array in (small, large)]
    assert isinstance(concat_tensor_arrays(columns).type, ArrowVariableShapedTensorType)
    first, second = unify_tensor_arrays(columns)
    assert first.type == second.type
    assert [len(first), len(second)] == [1, 2]
    assert (second.to_numpy()[1] == large[1]).all()


def test_what_is_unknown_fails_when_it_is_used():
    from ray.data._internal.planner.planner import Planner
    from ray.data.datasource.csv_datasource import CSVDatasource
    from ray.data.tests.conftest import CoreExecutionMetrics

    class Slow(CSVDatasource):
        def first(self, number: Planner[int] | None) -> None: ...

    for absent in (Planner, CoreExecutionMetrics, Slow):
        with pytest.raises(NotImplementedError, match="inside of Ray"):
            absent()


def test_a_class_that_is_unknown_can_be_derived_from():
    from ray.data.datasource import NoSuchFilter

    class Filter(NoSuchFilter):
        pass

    with pytest.raises(NotImplementedError, match="NoSuchFilter"):
        Filter()


def test_small_helpers():
    import pandas as pd
    import pyarrow as pa
    from ray._private.arrow_utils import get_pyarrow_version
    from ray.data._internal.arrow_ops.transform_pyarrow import MIN_PYARROW_VERSION_TYPE_PROMOTION
    from ray.data._internal.delegating_block_builder import DelegatingBlockBuilder
    from ray.data._internal.util import rows_same
    from ray.data.datasource.path_util import (
        _has_file_extension,
        _resolve_paths_and_filesystem,
        _unwrap_protocol,
    )
    from ray.data.extensions.tensor_extension import ArrowTensorArray, TensorArray

    assert get_pyarrow_version() >= MIN_PYARROW_VERSION_TYPE_PROMOTION
    one, other = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [2, 1]})
    assert rows_same(one, other)
    assert not rows_same(one, other.iloc[:1])
    assert _unwrap_protocol("s3://a/b") == "a/b"
    assert _has_file_extension("a/b.CSV?version=3", ["json", ".csv"])
    assert not _has_file_extension("a/b.csv.gz", ["csv"])
    assert _has_file_extension("a", None)
    places, system = _resolve_paths_and_filesystem(["a b/c#d?e", "/f"])
    assert (places, system.type_name) == (["a b/c#d?e", "/f"], "local")
    builder = DelegatingBlockBuilder()
    builder.add({"a": 1})
    builder.add_block(pa.table({"a": [2]}))
    assert builder.num_rows() == 2
    assert builder.build().to_pydict() == {"a": [1, 2]}
    assert len(ArrowTensorArray.from_numpy([[1, 2]])) == len(TensorArray([[1, 2]])) == 1


def test_the_source_of_the_example_of_read_datasource():
    import ray
    import ray.data
    from ray.data._internal.datasource.range_datasource import RangeDatasource

    ray.init(local_mode=True)
    try:
        numbers = RangeDatasource(n=5, block_format="arrow")
        assert numbers.estimate_inmemory_data_size() == 40
        assert [task.metadata.num_rows for task in numbers.get_read_tasks(2)] == [2, 3]
        found = ray.data.read_datasource(numbers, override_num_blocks=2)
        assert [row["value"] for row in found.take_all()] == [0, 1, 2, 3, 4]
        tensors = RangeDatasource(2, "tensor", (2, 2), column_name="x")
        assert ray.data.read_datasource(tensors).take_batch()["x"].tolist() == [
            [[0, 0], [0, 0]],
            [[1, 1], [1, 1]],
        ]
    finally:
        ray.shutdown()


def test_a_function_that_fails_is_logged_where_ray_does(caplog):
    import ray
    import ray.data

    def fails(row):
        raise ZeroDivisionError("by zero")

    ray.init(local_mode=True)
    try:
        with pytest.raises(ZeroDivisionError):
            ray.data.range(1).map(fails).take_all()
    finally:
        ray.shutdown()
    found = [record for record in caplog.records if record.name == "ray.data.exceptions"]
    assert "user code: ZeroDivisionError" in found[0].getMessage()
    assert "Full stack trace" in found[1].getMessage()


def test_pickles_in_archives_are_read_where_ray_is_told_to(tmp_path, monkeypatch):
    import io
    import pickle
    import tarfile

    import ray
    import ray.data

    with tarfile.open(tmp_path / "one.tar", "w") as archive:
        content = pickle.dumps({"a": 1})
        member = tarfile.TarInfo("0.pkl")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    ray.init(local_mode=True)
    try:
        with pytest.raises(ValueError, match="pickled Python objects"):
            ray.data.read_webdataset(str(tmp_path)).take_all()
        monkeypatch.setenv("RAY_DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION", "1")
        assert ray.data.read_webdataset(str(tmp_path)).take_all()[0]["pkl"] == {"a": 1}
    finally:
        ray.shutdown()


def test_columns_of_a_selection():
    import pyarrow as pa
    from ray.data.expressions import col, exprlist_to_fields, star

    schema = pa.schema([("a", pa.int32()), ("b", pa.float32())])
    made = exprlist_to_fields([star(), (col("a") + 1).alias("a"), col("b").alias("c")], schema)
    expected = [("a", pa.int64()), ("b", pa.float32()), ("c", pa.float32())]
    assert pa.schema(made) == pa.schema(expected)
    assert exprlist_to_fields([col("missing")], schema) is None


def test_conditions_of_readers_as_text():
    import pyarrow as pa
    from ray.data._internal.planner.plan_expression.expression_evaluator import (
        ExpressionEvaluator,
    )

    table = pa.table({"a": [-1, 1, None]})
    condition = ExpressionEvaluator.get_filters("a == -1 or is_null(a)")
    assert table.filter(condition).num_rows == 2
    assert ExpressionEvaluator.parse_native_expression("a > 0").left.name == "a"


def test_arrays_as_tensors():
    import numpy as np
    import pyarrow as pa
    import torch
    from ray.air._internal.torch_utils import convert_ndarray_batch_to_torch_tensor_batch
    from ray.data.util.torch_utils import (
        arrow_batch_to_tensors,
        convert_ndarray_to_torch_tensor,
        move_tensors_to_device,
    )

    fixed = np.ones(2)
    fixed.flags.writeable = False
    assert convert_ndarray_to_torch_tensor(fixed, torch.float32).dtype == torch.float32
    ragged = np.array([np.ones(1), np.ones(2)], dtype=object)
    with pytest.raises(RuntimeError, match="different shapes"):
        convert_ndarray_to_torch_tensor(ragged)
    made = convert_ndarray_batch_to_torch_tensor_batch({"a": fixed}, {"a": torch.int64})
    assert made["a"].tolist() == [1, 1]
    table = pa.table({"a": pa.chunked_array([[1], [2, 3]])})
    chunks = arrow_batch_to_tensors(table)
    assert [chunk.tolist() for chunk in chunks["a"]] == [[1], [2, 3]]
    assert arrow_batch_to_tensors(table, combine_chunks=True)["a"].tolist() == [1, 2, 3]
    assert move_tensors_to_device(chunks, "cpu")["a"].tolist() == [1, 2, 3]


def test_types_of_tensors_are_printed_as_in_ray():
    import pyarrow as pa
    from ray.data import Schema
    from ray.data.extensions import ArrowTensorType, ArrowVariableShapedTensorType

    fixed, ragged = (
        ArrowTensorType((2, 3), pa.float64()),
        ArrowVariableShapedTensorType(pa.int8(), 2),
    )
    text = repr(Schema(pa.schema([("a", fixed), ("b", ragged)])))
    assert "ArrowTensorTypeV2(shape=(2, 3), dtype=double)" in text
    assert "ArrowVariableShapedTensorType(ndim=2, dtype=int8)" in text


def test_a_module_that_is_needed():
    from ray.data._internal.util import _check_import

    _check_import(7, module="json", package="json")
    with pytest.raises(ImportError, match=r"int needs .*'no_such'.*pip install no-such"):
        _check_import(7, module="no_such", package="no-such")


class TestRetries:
    """`ray._common.retry`, without the waiting."""

    @pytest.fixture(autouse=True)
    def waited(self, monkeypatch):
        waited = []
        monkeypatch.setattr("time.sleep", waited.append)
        return waited

    def failing(self, times, message="busy"):
        """A function that fails so often and counts."""
        left = [times]

        def call(*args, **kwargs):
            if left[0]:
                left[0] -= 1
                raise OSError(message)
            return args, kwargs

        return call

    def test_a_call_is_made_until_it_works(self, waited):
        from ray.data._internal.util import call_with_retry

        called = call_with_retry(self.failing(4), "try", None, 5, 3, 1, b=2)
        assert called == ((1,), {"b": 2})
        assert waited == pytest.approx([1, 2, 3, 3], rel=0.21)

    def test_the_last_error_is_raised(self):
        from ray._common.retry import retry

        with pytest.raises(OSError, match="busy"):
            retry("try", max_attempts=3)(self.failing(3))()

    def test_only_errors_that_match(self):
        from ray._common.retry import call_with_retry

        assert call_with_retry(self.failing(1), "try", match=["b.sy$"]) == ((), {})
        assert call_with_retry(self.failing(1, "x (y"), "try", match=["(y"]) == ((), {})
        with pytest.raises(OSError, match="busy"):
            call_with_retry(self.failing(1), "try", match=["idle", "(no expression"])

    def test_items_come_once(self):
        from ray.data._internal.util import iterate_with_retry

        failing = self.failing(2)

        def items():
            yield 1
            yield 2
            failing()
            yield 3

        assert list(iterate_with_retry(items, "read")) == [1, 2, 3]

    def test_no_attempt_at_all(self):
        from ray._common.retry import call_with_retry

        with pytest.raises(ValueError, match="at least 1; got 0"):
            call_with_retry(print, "try", max_attempts=0)


def test_rows_are_the_same_by_their_values():
    import numpy as np
    import pandas as pd
    from ray.data._internal.util import rows_same

    frame = pd.DataFrame({"n": [1, 2], "v": [[1, 2], [3]], "t": ["a", None]})
    other = pd.DataFrame(
        {"t": [None, "a"], "v": [np.array([3.0]), np.array([1, 2])], "n": [2.0, 1.0]}
    )
    assert rows_same(frame, other)
    assert rows_same(pd.DataFrame({"x": [-0.0, 0.1 + 0.2]}), pd.DataFrame({"x": [0.3, 0]}))
    assert not rows_same(frame, frame[:1])
    assert not rows_same(pd.DataFrame({"x": [1, 1, 2]}), pd.DataFrame({"x": [1, 2, 2]}))
    assert not rows_same(pd.DataFrame({"x": [1]}), pd.DataFrame({"y": [1]}))


def test_modes_of_writing():
    from ray.data._internal.savemode import SaveMode

    import skate.data

    assert SaveMode is skate.data.SaveMode


def test_names_of_errors_that_are_not_raised():
    from ray.data.exceptions import ExecutionTimeoutError, SystemException, UserCodeException

    assert not issubclass(UserCodeException, (ExecutionTimeoutError, SystemException))


def test_ragged_arrays_keep_what_is_no_list():
    from ray.air.util.tensor_extensions.utils import create_ragged_ndarray

    array = create_ragged_ndarray(["a", None, [1, 2], {"b": 1}])
    assert (array[0], array[1], array[3]) == ("a", None, {"b": 1})
    assert array[2].tolist() == [1, 2]


def test_expressions_are_evaluated_where_ray_does_it():
    import pandas as pd
    import pyarrow as pa
    from ray.data._internal.planner.plan_expression.expression_evaluator import eval_expr
    from ray.data.expressions import BinaryExpr, Operation, col, lit

    doubled = BinaryExpr(Operation.MUL, col("a"), lit(2))
    assert eval_expr(doubled, pa.table({"a": [1, 2]})).to_pylist() == [2, 4]
    assert list(eval_expr(doubled, pd.DataFrame({"a": [1, 2]}))) == [2, 4]
    assert eval_expr(lit(5), pa.table({"a": [1]})) == 5


def test_constants_of_the_settings():
    from ray.data.context import (
        DEFAULT_ENABLE_PROGRESS_BARS,
        DEFAULT_TARGET_MAX_BLOCK_SIZE,
        MAX_SAFE_BLOCK_SIZE_FACTOR,
        DataContext,
    )

    assert DataContext().target_max_block_size == DEFAULT_TARGET_MAX_BLOCK_SIZE
    assert DEFAULT_ENABLE_PROGRESS_BARS
    assert MAX_SAFE_BLOCK_SIZE_FACTOR > 1
    with pytest.raises(ImportError):
        from ray.data.context import DEFAULT_TARGET_BLOCKS  # noqa: F401


def test_blocks_of_arrays_under_the_name_of_the_inside():
    import numpy as np
    from ray.data._internal.arrow_block import ArrowBlockAccessor

    block = ArrowBlockAccessor.numpy_to_block({"a": np.arange(6).reshape(3, 2)})
    assert ArrowBlockAccessor.for_block(block).to_numpy("a").shape == (3, 2)
