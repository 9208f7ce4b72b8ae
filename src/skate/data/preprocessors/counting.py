"""Which values there are, how often, and which of them a value is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skate._core.optional_imports import try_import
from skate.data._aggregates.values import hashable, is_list
from skate.data._arrow.compute import pc
from skate.data._arrow.tensors import column_to_rows, is_tensor

if TYPE_CHECKING:
    import pandas as pd

    from skate._core.arrays import Array
    from skate.data.dataset import Dataset

LISTS = (list, tuple, np.ndarray)


def counts_of(ds: Dataset, columns: Sequence[str], lists: bool) -> dict[str, Counter[Any]]:
    """Count how often each value occurs; with `lists`, elements of lists count one by one."""
    found: dict[str, Counter[Any]] = {column: Counter() for column in columns}
    for block in ds.select_columns(list(columns))._blocks():
        for column in columns:
            found[column].update(_counted(block[column], lists))
    return found


def _counted(column: pa.ChunkedArray, lists: bool) -> Mapping[object, int]:
    if lists and is_list(column.type):
        column = pc.list_flatten(column)
    elif is_tensor(column.type) or is_list(column.type):
        return _counted_in_python(column, lists)
    try:
        pairs = pc.value_counts(column)
    except pa.ArrowNotImplementedError:  # objects, as arrays of text are
        return _counted_in_python(column, lists)
    values, counts = (pairs.field(number).to_pylist() for number in (0, 1))
    return dict(zip(values, counts, strict=True))


def _counted_in_python(column: pa.ChunkedArray, lists: bool) -> Counter[object]:
    values = map(hashable, column_to_rows(column))
    if not lists:
        return Counter(values)
    items = (value if type(value) is tuple else (value,) for value in values)
    return Counter(chain.from_iterable(items))


def places_of(values: pd.Series, known: Mapping[object, int]) -> Array:
    """Look up the number that each value of a series has; -1 for unknown ones."""
    pandas = try_import("pandas", "data")
    if values.dtype == object and any(isinstance(value, LISTS) for value in values):
        found = (known.get(hashable(value), -1) for value in values)
        return np.fromiter(found, np.int64, len(values))
    index = pandas.Index(list(known), dtype=None if len(known) else object)
    places: Array = index.get_indexer(values)
    return places
