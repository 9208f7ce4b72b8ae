"""Collate functions that say which form of batches they want."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

__all__ = ["ArrowBatchCollateFn", "CollateFn", "NumpyBatchCollateFn", "PandasBatchCollateFn"]


class CollateFn(ABC):
    """For `collate_fn=` of iter_torch_batches: derive from one of the three below."""

    batch_format: ClassVar[str] = "numpy"

    @abstractmethod
    def __call__(self, batch: Any) -> Any:
        """What to make of a batch."""


class ArrowBatchCollateFn(CollateFn):
    """Gets Arrow tables."""

    batch_format = "pyarrow"


class NumpyBatchCollateFn(CollateFn):
    """Gets dictionaries of NumPy arrays."""

    batch_format = "numpy"


class PandasBatchCollateFn(CollateFn):
    """Gets pandas frames."""

    batch_format = "pandas"


def format_for(collate_fn: Any) -> str:
    """The form of batches that a collate function wants."""
    return collate_fn.batch_format if isinstance(collate_fn, CollateFn) else "numpy"
