"""Collate functions that say which form of batches they want."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

__all__ = [
    "ArrowBatchCollateFn",
    "CollateFn",
    "DefaultCollateFn",
    "NumpyBatchCollateFn",
    "PandasBatchCollateFn",
]


class CollateFn(ABC):
    """Turn batches into what a model takes: for `collate_fn=` of iter_torch_batches.

    Derive from one of the three below, by the form of batches that you want.
    """

    batch_format: ClassVar[str] = "numpy"

    @abstractmethod
    def __call__(self, batch: Any) -> Any:
        """Make of a batch what the loop is to get."""


class ArrowBatchCollateFn(CollateFn):
    """Turn Arrow tables into what a model takes."""

    batch_format = "pyarrow"


class NumpyBatchCollateFn(CollateFn):
    """Turn dictionaries of NumPy arrays into what a model takes."""

    batch_format = "numpy"


class PandasBatchCollateFn(CollateFn):
    """Turn pandas frames into what a model takes."""

    batch_format = "pandas"


class DefaultCollateFn(NumpyBatchCollateFn):
    """Make a tensor per column, as iter_torch_batches does without a collate_fn.

    Args:
        dtypes: One torch type, or one per column.
        combine_chunks: Without effect: columns are single tensors already.
        num_workers: Without effect: converting them needs no threads.
    """

    def __init__(
        self, dtypes: object = None, combine_chunks: bool = False, num_workers: int = 4
    ) -> None:
        self.dtypes = dtypes
        self.combine_chunks = combine_chunks
        self.num_workers = num_workers

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        from skate.data._execution.batching import check_given, of_column, tensor_of

        check_given(self.dtypes, list(batch))
        return {
            name: tensor_of(array, of_column(self.dtypes, name), name)
            for name, array in batch.items()
        }


def format_for(collate_fn: object) -> str:
    """Return the form of batches that a collate function wants."""
    return collate_fn.batch_format if isinstance(collate_fn, CollateFn) else "numpy"
