"""Small helpers of the inside of Ray's data library that tests and programs take from there."""

from __future__ import annotations

import os
from enum import Enum
from importlib import import_module
from itertools import pairwise
from typing import Any

import pyarrow as pa

from skate.compat.parts.core.retry import call_with_retry, iterate_with_retry
from skate.data._arrow.blocks import block_of_batch, block_of_rows, common_schema, concat
from skate.data._arrow.blocks import compact as combine_chunks
from skate.data._expressions.text import parse
from skate.data._io.paths import resolve
from skate.data.block import BlockAccessor

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
FILE_SIZE_FETCH_PARALLELIZATION_THRESHOLD = 16


class JoinType(Enum):
    """What `Dataset.join` may be asked for."""

    INNER = "inner"
    LEFT_OUTER = "left_outer"
    RIGHT_OUTER = "right_outer"
    FULL_OUTER = "full_outer"
    LEFT_SEMI = "left_semi"
    RIGHT_SEMI = "right_semi"
    LEFT_ANTI = "left_anti"
    RIGHT_ANTI = "right_anti"


class ArrowBlockAccessor(BlockAccessor):
    """A block in the form that you like, under the name that Ray has for blocks of Arrow."""

    @staticmethod
    def numpy_to_block(batch: object) -> Any:
        """Make the block of a dictionary of arrays."""
        return block_of_batch(batch)


class DelegatingBlockBuilder:
    """A block out of rows, batches and blocks: how Ray's guides write sources of one's own."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []
        self._rows: list[Any] = []

    def add(self, item: object) -> None:
        """Add one more row."""
        self._rows.append(item)

    def add_batch(self, batch: object) -> None:
        self.add_block(batch)

    def add_block(self, block: object) -> None:
        self._flush()
        self._blocks.append(block_of_batch(block))

    def _flush(self) -> None:
        if self._rows:
            self._blocks.append(block_of_rows(self._rows))
            self._rows = []

    def num_rows(self) -> int:
        return len(self._rows) + int(sum(block.num_rows for block in self._blocks))

    def build(self) -> Any:
        self._flush()
        return concat(self._blocks)


def _ref_bundles_iterator_to_block_refs_list(bundles: Any) -> list[object]:
    """List the references of all blocks."""
    return [ref for bundle in bundles for ref in bundle.block_refs]


def eval_expr(expr: Any, block: Any) -> Any:
    """Compute an expression for a table or a data frame, as a column of the same library."""
    result = expr.evaluate(block_of_batch(block))
    if not hasattr(result, "to_pandas"):
        return result.as_py()
    return result if isinstance(block, pa.Table) else result.to_pandas()


class ExpressionEvaluator:
    """Conditions that were written as text."""

    @staticmethod
    def get_filters(expression: str) -> Any:
        """Return the condition as pyarrow knows it, for the readers of files."""
        return parse(expression).to_pyarrow()

    @staticmethod
    def parse_native_expression(expression: str) -> Any:
        """Return the condition as an expression on columns."""
        return parse(expression)


def _check_import(obj: object, *, module: str, package: str) -> None:
    """Raise an ImportError that names the `package` with the `module` that `obj` needs."""
    try:
        import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{type(obj).__name__} needs the module {module!r}, which cannot be imported: "
            f"pip install {package}"
        ) from error


def get_pyarrow_version() -> Any:
    """Return the version of pyarrow that is installed."""
    return _version(import_module("pyarrow").__version__)


def unify_schemas(schemas: Any, *, promote_types: bool = True) -> Any:
    """Return the schema that rows of all of them fit; types are promoted in any case."""
    first, *rest = schemas
    return first if all(schema is first for schema in rest) else common_schema([first, *rest])


def unify_tensor_arrays(arrs: Any) -> list[Any]:
    """Bring columns of tensors to one type."""
    whole, starts = concat_tensor_arrays(arrs), [0]
    for array in arrs:
        starts.append(starts[-1] + len(array))
    return [whole[start:stop] for start, stop in pairwise(starts)]


def concat_tensor_arrays(arrays: Any) -> Any:
    """Put columns of tensors one after the other, of one shape or of several."""
    column = concat([pa.table({"data": array}) for array in arrays])["data"]
    return column.combine_chunks()


def is_nan(value: object) -> bool:
    """Return whether it is NaN."""
    return isinstance(value, float) and value != value


def is_null(value: object) -> bool:
    """Return whether it is None or no number."""
    return value is None or is_nan(value)


def rows_same(actual: object, expected: object) -> bool:
    """Return whether two frames have the same rows, in whatever order; of numbers the value
    counts, not the type, and not the last digits."""
    testing = import_module("pandas.testing")
    try:
        testing.assert_frame_equal(_ordered(actual), _ordered(expected))
    except AssertionError:
        return False
    return True


def _ordered(frame: Any) -> object:
    """Order the frame's columns and its rows by what follows from their values."""
    names = sorted(frame.columns)
    rows = [list(map(_plain, row)) for row in frame[names].itertuples(index=False, name=None)]
    return import_module("pandas").DataFrame(sorted(rows, key=repr), columns=names, dtype=object)


def _plain(value: object) -> Any:
    """Return the value as others of the same meaning are, too: numbers as floats, arrays as
    lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if is_null(value) or type(value).__name__ == "NAType":
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(f"{value:.7g}") + 0.0  # adding 0 makes -0.0 the same as 0.0
    return value


def _unwrap_protocol(path: object) -> str:
    """Return a path without its protocol."""
    return str(path).partition("://")[2] or str(path)


def _has_file_extension(path: str, extensions: list[str] | None) -> bool:
    """Return whether a path ends with one of these, in capitals or not, and without its query."""
    ends = tuple(f".{each.lower().lstrip('.')}" for each in extensions or ())
    return extensions is None or path.partition("?")[0].lower().endswith(ends)


def _resolve_paths_and_filesystem(paths: Any, filesystem: object = None) -> tuple[list[str], Any]:
    """Return paths as their file system has them; those of this machine as they were written."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found = [resolve(path, filesystem) for path in given]
    texts = [os.fspath(path) for path in given]
    places = [
        place if "://" in text else text for text, (_, place) in zip(texts, found, strict=True)
    ]
    return places, found[0][0]


def _version(text: str) -> object:
    return import_module("packaging.version").parse(text)


def __getattr__(name: str) -> Any:
    if "MIN_PYARROW_VERSION" in name:
        return _version("0")  # what skate requires has all that is asked for
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ArrowBlockAccessor",
    "DelegatingBlockBuilder",
    "ExpressionEvaluator",
    "GiB",
    "JoinType",
    "KiB",
    "MiB",
    "call_with_retry",
    "combine_chunks",
    "get_pyarrow_version",
    "iterate_with_retry",
    "rows_same",
]
