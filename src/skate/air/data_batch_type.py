"""What a batch may be."""

from typing import Any

DataBatchType = Any
"""A NumPy array, a dict of them, a pandas DataFrame or an Arrow table."""

__all__ = ["DataBatchType"]
