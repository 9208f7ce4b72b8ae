"""Batches in the forms that predictors take: arrays, dictionaries of arrays, frames and tables."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skate._core.enumerations import looked_up_by_value
from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import block_of_batch, numpy_of, pandas_of

if TYPE_CHECKING:
    import pandas as pd


TENSOR_COLUMN = "__value__"  # the column of an array that came without names

Batch = Any
Arrays = Any  # an array, or a dictionary of arrays


@looked_up_by_value
class BatchFormat(str, Enum):
    """Name the forms of batches that predictors are written for.

    Args:
        value: "pandas", "arrow" or "numpy".
    """

    PANDAS = "pandas"
    ARROW = "arrow"
    NUMPY = "numpy"


def format_of(batch: Batch) -> BatchFormat:
    """Return the form of a batch. Raises TypeError when it is none that predictors take."""
    if isinstance(batch, (np.ndarray, dict)):
        return BatchFormat.NUMPY
    if isinstance(batch, pa.Table):
        return BatchFormat.ARROW
    if is_frame(batch):
        return BatchFormat.PANDAS
    raise TypeError(
        "predict takes an array, a dictionary of arrays, a pandas DataFrame or a pyarrow Table; "
        f"got a {type(batch).__name__}"
    )


def formats_by_type() -> dict[type, BatchFormat]:
    """Return the form of each type of batch."""
    pandas = try_import("pandas", "data")
    return {
        np.ndarray: BatchFormat.NUMPY,
        dict: BatchFormat.NUMPY,
        pandas.DataFrame: BatchFormat.PANDAS,
        pa.Table: BatchFormat.ARROW,
    }


def to_format(batch: Batch, wanted: BatchFormat) -> Batch:
    """Return the same rows in another form."""
    if wanted is BatchFormat.NUMPY:
        return to_numpy(batch)
    if wanted is BatchFormat.PANDAS:
        return to_pandas(batch)
    return batch if isinstance(batch, pa.Table) else block_of_batch(_columns(batch))


def to_numpy(batch: Batch) -> Arrays:
    """Return a dictionary of arrays; one array if it came without names."""
    if isinstance(batch, np.ndarray):
        return batch
    if isinstance(batch, pa.Table):
        columns: dict[Any, Any] = numpy_of(batch)
    elif isinstance(batch, dict):
        columns = {name: np.asarray(values) for name, values in batch.items()}
    else:
        columns = {name: batch[name].to_numpy() for name in batch.columns}
    columns = {name: _stacked(values) for name, values in columns.items()}
    return columns[TENSOR_COLUMN] if list(columns) == [TENSOR_COLUMN] else columns


def to_pandas(batch: Batch) -> pd.DataFrame:
    """Return a DataFrame; arrays of more than one dimension as an array per cell."""
    if is_frame(batch):
        return batch
    if isinstance(batch, pa.Table):
        return pandas_of(batch)
    pandas = try_import("pandas", "data")
    cells = {
        name: list(values) if np.ndim(values) > 1 else values
        for name, values in _columns(batch).items()
    }
    return pandas.DataFrame(cells)


def select(batch: Batch, columns: list[Any]) -> Batch:
    """Return some columns of a batch with names."""
    if isinstance(batch, np.ndarray):
        raise ValueError(f"an array has no columns by name; feature_columns={columns} were asked")
    check_columns(batch, columns, "feature_columns")
    if isinstance(batch, dict):
        return {name: batch[name] for name in columns}
    return batch.select(columns) if isinstance(batch, pa.Table) else batch[columns]


def check_columns(batch: Batch, wanted: list[Any], parameter: str) -> None:
    """Raise KeyError unless the columns are there that a parameter names."""
    if not wanted:
        return
    there = batch.column_names if isinstance(batch, pa.Table) else list(_columns(batch))
    missing = [name for name in wanted if name not in there]
    if missing:
        raise KeyError(f"{parameter} names {missing}, and the batch has the columns {there}")


def _columns(batch: Batch) -> Any:
    return {TENSOR_COLUMN: batch} if isinstance(batch, np.ndarray) else batch


def _stacked(values: Any) -> Any:
    """Stack cells that are arrays or lists of one shape, as one array; of several, as arrays."""
    if values.dtype != object or not len(values):
        return values
    if not all(isinstance(value, (np.ndarray, list, tuple)) for value in values.flat):
        return values
    cells = [np.asarray(value) for value in values]
    if len({cell.shape for cell in cells}) == 1:
        return np.stack(cells)
    apart = np.empty(len(cells), object)
    apart[:] = cells
    return apart


def is_frame(batch: Batch) -> bool:
    return hasattr(batch, "columns") and type(batch).__module__.partition(".")[0] == "pandas"
