"""Numbers as the bins they fall into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.optional_imports import try_import
from skate.data import aggregate as agg
from skate.data.preprocessors.base import ColumnPreprocessor, known_values, numbers_of

if TYPE_CHECKING:
    import pandas as pd

    from skate._core.arrays import Array
    from skate.data.dataset import Dataset

Dtypes = Mapping[str, Any]


class _Discretizer(ColumnPreprocessor):
    bins: Any = None
    right: bool = True
    include_lowest: bool = False
    duplicates: str = "raise"
    dtypes: Any = None

    def __init__(
        self,
        columns: Sequence[str],
        bins: object,
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: Dtypes | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.bins = bins
        self.right = right
        self.include_lowest = include_lowest
        self.duplicates = duplicates
        self.dtypes = dtypes
        if isinstance(bins, Mapping):
            without = [column for column in self.columns if column not in bins]
            if without:
                raise ValueError(
                    "`bins` as a dictionary has an entry for each of `columns`; there is none "
                    f"for {without}"
                )

    def _edges(self, name: str) -> Any:
        raise TypeError(f"{type(self).__name__} must override _edges")

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        pandas = try_import("pandas", "data")
        dtype: Any = (self.dtypes or {}).get(name)
        named = isinstance(dtype, pandas.CategoricalDtype)
        return pandas.cut(
            numbers_of(values),
            self._edges(name),
            right=self.right,
            labels=dtype.categories if named else False,
            ordered=bool(dtype.ordered) if named else True,
            include_lowest=self.include_lowest,
            duplicates=self.duplicates,
        )


class CustomKBinsDiscretizer(_Discretizer):
    """Put values into bins whose edges are given.

    Args:
        columns: The columns that it works on.
        bins: The edges in ascending order, one more than bins: for all columns, or by column.
        right: Whether bins contain their right edge, and not their left one.
        include_lowest: Whether the first bin contains its left edge too.
        duplicates: What to do about edges that are equal: "raise" an error, or "drop" them.
        dtypes: For columns whose bins are to have names: a `pandas.CategoricalDtype` each, with as
            many categories as there are bins. Other columns get the number of the bin.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    _is_fittable = False

    def _edges(self, name: str) -> Any:
        return self.bins[name] if isinstance(self.bins, Mapping) else self.bins


class UniformKBinsDiscretizer(_Discretizer):
    """Put values into bins of equal width between the smallest and the largest value.

    Args:
        columns: The columns that it works on.
        bins: The number of bins: for all columns, or by column.
        right: Whether bins contain their right edge, and not their left one.
        include_lowest: Whether the first bin contains its left edge too.
        duplicates: What to do about edges that are equal: "raise" an error, or "drop" them.
        dtypes: For columns whose bins are to have names: a `pandas.CategoricalDtype` each, with as
            many categories as there are bins. Other columns get the number of the bin.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    def _fit(self, ds: Dataset) -> dict[str, object]:
        lows = (agg.Min(column) for column in self.columns)
        highs = (agg.Max(column) for column in self.columns)
        found = known_values(ds, self.columns).aggregate(*lows, *highs)
        return {
            column: self._spread(column, found[f"min({column})"], found[f"max({column})"])
            for column in self.columns
        }

    def _spread(
        self, column: str, low: float | None, high: float | None
    ) -> Sequence[float] | Array:
        if low is None or high is None:
            raise ValueError(f"column {column!r} has no values to bin: all are missing")
        count = self.bins[column] if isinstance(self.bins, Mapping) else self.bins
        if not isinstance(count, int):
            raise TypeError(f"`bins` must be an integer, or one per column; got {self.bins!r}")
        if count < 1:
            raise ValueError(f"bins must be a positive integer; got {count}")
        edges = np.linspace(low, high, count + 1)
        # The smallest (largest) value must lie inside the first (last) bin, which is open there.
        width = 0.001 * (high - low)
        if self.right:
            edges[0] -= width
        else:
            edges[-1] += width
        return edges

    def _edges(self, name: str) -> Any:
        return self.stats_[name]
