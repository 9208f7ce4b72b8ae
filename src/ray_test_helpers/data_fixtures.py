"""`ray.data.tests.conftest`: fixtures of settings, files and small datasets.

from ray.data.tests.conftest import *
"""

from __future__ import annotations

import os
import posixpath
import urllib.parse
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, TypeVar

import skate.data
import skate.data.extensions
from ray_test_helpers import sessions
from skate.data.context import DataContext, ShuffleStrategy

_pytest: Any = import_module("pytest")  # who imports this runs under it
_Function = TypeVar("_Function")


def _fixture(**settings: Any) -> Callable[[_Function], _Function]:
    made: Callable[[_Function], _Function] = _pytest.fixture(**settings)
    return made


ray_start_2_cpus_shared = sessions._session("module", num_cpus=2)


# -- settings -----------------------------------------------------------------------------------


@_fixture()
def restore_data_context() -> Iterator[DataContext]:
    """Yield the settings, which are again what they were when the test has ended."""
    original = DataContext.get_current().copy()
    yield DataContext.get_current()
    DataContext._set_current(original)


@_fixture(scope="module")
def data_context_override(request: Any) -> Iterator[DataContext]:
    """Yield settings that the test's parameter changes, for its module."""
    original = DataContext.get_current().copy()
    for name, value in getattr(request, "param", {}).items():
        setattr(DataContext.get_current(), name, value)
    yield DataContext.get_current()
    DataContext._set_current(original)


def _setting(name: str, values: list[Any]) -> Callable[..., Any]:
    """Make a fixture that runs a test with each value of a setting."""

    def changed(request: Any) -> Iterator[Any]:
        context = DataContext.get_current()
        original = getattr(context, name)
        setattr(context, name, request.param)
        yield request.param
        setattr(DataContext.get_current(), name, original)

    return _fixture(params=values)(changed)


configure_shuffle_method = _setting("shuffle_strategy", list(ShuffleStrategy)[:3])
use_push_based_shuffle = _setting("use_push_based_shuffle", [True, False])
use_polars_sort = _setting("use_polars_sort", [True, False])
enable_automatic_tensor_extension_cast = _setting("enable_tensor_extension_casting", [True, False])
tensor_format_context = _setting(
    "arrow_fixed_shape_tensor_format", list(skate.data.extensions.FixedShapeTensorFormat)
)
enable_auto_log_stats = _setting("enable_auto_log_stats", [True, False])
target_max_block_size = _setting("target_max_block_size", [1024])
target_max_block_size_infinite = _setting("target_max_block_size", [None])
target_max_block_size_infinite_or_default = _setting(
    "target_max_block_size", [None, DataContext().target_max_block_size]
)
disable_fallback_to_object_extension = _setting(
    "enable_fallback_to_arrow_object_ext_type", [False]
)


# -- files --------------------------------------------------------------------------------------


@_fixture()
def data_dir() -> str:
    return "test_data"


@_fixture()
def data_dir_with_space() -> str:
    return "test data"


@_fixture()
def local_path(tmp_path: Any, data_dir: str) -> str:
    """Return an empty folder."""
    path = os.path.join(tmp_path, data_dir)
    os.mkdir(path)
    return path


@_fixture()
def local_fs() -> Any:
    return import_module("pyarrow.fs").LocalFileSystem()


@_fixture()
def base_partitioned_df() -> Any:
    """Make a frame: two numbers with three letters each."""
    pandas = import_module("pandas")
    return pandas.DataFrame({"one": [1, 1, 1, 3, 3, 3], "two": list("abcefg")})


@_fixture()
def write_partitioned_df() -> Callable[..., list[str]]:
    """Write a frame in one file per partition, at the paths that an encoder gives."""

    def write(
        df: Any, partition_keys: list[str], encoder: Any, writer: Any, file_name_suffix: str = "_1"
    ) -> list[str]:
        paths = []
        for _, part in df.groupby(partition_keys, as_index=False):
            folder = encoder([str(part[key].iloc[0]) for key in partition_keys])
            encoder.scheme.resolved_filesystem.create_dir(folder)
            protocol = urllib.parse.urlparse(encoder.scheme.base_dir).scheme
            root = f"{protocol}://{folder}" if protocol else folder
            paths.append(posixpath.join(root, f"test_{file_name_suffix}.tmp"))
            writer(part, paths[-1])
        return paths

    return write


@_fixture()
def write_base_partitioned_df(
    base_partitioned_df: Any, write_partitioned_df: Callable[..., list[str]]
) -> Callable[..., None]:
    def write(partition_keys: list[str], partition_path_encoder: Any, file_writer_fn: Any) -> None:
        write_partitioned_df(
            base_partitioned_df, partition_keys, partition_path_encoder, file_writer_fn
        )

    return write


@_fixture()
def assert_base_partitioned_ds() -> Callable[..., None]:
    """Assert that a dataset is what `base_partitioned_df` was written to, or as much of it."""
    return _assert_partitions


def _assert_partitions(
    ds: Any,
    count: int = 6,
    num_input_files: int = 2,
    num_rows: int = 6,
    schema: Any = None,
    sorted_values: Any = None,
    ds_take_transform_fn: Any = None,
    sorted_values_transform_fn: Any = None,
) -> None:
    expected = sorted_values or [[1, "a"], [1, "b"], [1, "c"], [3, "e"], [3, "f"], [3, "g"]]
    rows_to_values = ds_take_transform_fn or (lambda rows: [[r["one"], r["two"]] for r in rows])
    adapt = sorted_values_transform_fn or (lambda values: values)
    rows = ds.take_all()
    assert ds.count() == count == num_rows == len(rows)
    assert ds.size_bytes() > 0
    assert schema is None or schema in (ds.schema(), ds.schema().short())
    assert len(ds.input_files()) == num_input_files
    assert adapt(sorted(rows_to_values(rows))) == expected


# -- small datasets -----------------------------------------------------------------------------


def _dataset(make: Callable[[], Any]) -> Callable[..., Any]:
    def made(ray_start_regular_shared: Any) -> Any:
        return make()

    return _fixture()(made)


def _frame(**columns: list[int]) -> Any:
    return import_module("pandas").DataFrame(columns)


def _table(**columns: list[int]) -> Any:
    return import_module("pyarrow").table(columns)


def _tensors() -> Any:
    return import_module("numpy").arange(16).reshape((4, 2, 2))


_TWO = {"column_1": [1, 2, 3, 4], "column_2": [1, -1, 1, -1]}

ds_pandas_single_column_format = _dataset(
    lambda: skate.data.from_pandas(_frame(column_1=[1, 2, 3, 4]))
)
ds_pandas_multi_column_format = _dataset(lambda: skate.data.from_pandas(_frame(**_TWO)))
ds_pandas_list_multi_column_format = _dataset(
    lambda: skate.data.from_pandas([_frame(column_1=[1], column_2=[1])] * 4)
)
ds_arrow_single_column_format = _dataset(
    lambda: skate.data.from_arrow(_table(column_1=[1, 2, 3, 4]))
)
ds_arrow_single_column_tensor_format = _dataset(
    lambda: skate.data.from_numpy(_tensors()).rename_columns({"data": "__value__"})
)
ds_arrow_multi_column_format = _dataset(lambda: skate.data.from_arrow(_table(**_TWO)))
ds_list_arrow_multi_column_format = _dataset(
    lambda: skate.data.from_arrow([_table(column_1=[1], column_2=[1])] * 4)
)
ds_numpy_single_column_tensor_format = _dataset(lambda: skate.data.from_numpy(_tensors()))
ds_numpy_list_of_ndarray_tensor_format = _dataset(
    lambda: skate.data.from_numpy([_tensors()[:1]] * 4)
)
