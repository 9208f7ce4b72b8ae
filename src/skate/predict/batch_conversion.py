"""Batches from one form to another."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from skate._core.public_names import name_publicly
from skate.predict._batches import BatchFormat, formats_by_type, to_format, to_numpy, to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from skate.predict._batches import Arrays


DataType = BatchFormat  # its name in Ray 2.0
DataBatchType = Any
"""A NumPy array, a dict of them, a pandas DataFrame or an Arrow table."""


class BlockFormat(str, Enum):
    """What the pieces of a dataset are."""

    PANDAS = "pandas"
    ARROW = "arrow"
    SIMPLE = "simple"


def convert_batch_type_to_pandas(data: object, cast_tensor_columns: bool = False) -> pd.DataFrame:
    """Return a batch as a DataFrame.

    Args:
        data: The batch: a DataFrame, an Arrow table, an array, or a dictionary of arrays.
        cast_tensor_columns: Has no effect: cells with tensors are arrays.
    """
    return to_pandas(data)


def convert_batch_type_to_numpy(data: object) -> Arrays:
    """Return a batch as a dictionary of arrays, or as one array.

    Args:
        data: The batch: a DataFrame, an Arrow table, an array, or a dictionary of arrays.
    """
    return to_numpy(data)


def convert_pandas_to_batch_type(
    data: pd.DataFrame, type: BatchFormat, cast_tensor_columns: bool = False
) -> DataBatchType:
    """Return a DataFrame in another form; one column alone becomes one array.

    Args:
        data: The DataFrame.
        type: The form.
        cast_tensor_columns: Has no effect: cells with tensors are arrays.
    """
    if type is BatchFormat.NUMPY and len(data.columns) == 1:
        (column,) = to_numpy(data.set_axis(["column"], axis=1)).values()
        return column
    return to_format(data, type)


def __getattr__(name: str) -> Any:
    if name == "TYPE_TO_ENUM":  # made when it is asked for, because pandas is slow to import
        return formats_by_type()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BatchFormat",
    "BlockFormat",
    "DataBatchType",
    "DataType",
    "convert_batch_type_to_numpy",
    "convert_batch_type_to_pandas",
    "convert_pandas_to_batch_type",
]

name_publicly(__name__)
