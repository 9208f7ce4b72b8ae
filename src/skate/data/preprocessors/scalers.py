"""Numbers brought to a common scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skate.data import aggregate as agg
from skate.data._arrow.blocks import check_columns
from skate.data.preprocessors.base import (
    ColumnPreprocessor,
    floats_of,
    known_values,
    numbers_of,
)

if TYPE_CHECKING:
    import pandas as pd

    from skate._core.arrays import Array
    from skate.data.dataset import Dataset

_TINY = 1e-8


def _scaled(values: pd.Series, zero: float | None, width: float | None) -> pd.Series:
    """Scale so that `zero` becomes 0 and `zero + width` becomes 1.

    A column that does not vary is moved only; where nothing is known, everything is missing.
    """
    if zero is None or width is None:
        return numbers_of(values) * float("nan")
    return (numbers_of(values) - zero) / (1.0 if abs(width) < _TINY else width)


def _distance(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else high - low


class StandardScaler(ColumnPreprocessor):
    """Scale columns to mean 0 and standard deviation 1.

    Args:
        columns: The columns that it works on.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    def _fit(self, ds: Dataset) -> dict[str, object]:
        means = (agg.Mean(column) for column in self.columns)
        deviations = (agg.Std(column, ddof=0) for column in self.columns)
        return known_values(ds, self.columns).aggregate(*means, *deviations)

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        mean, deviation = self.stats_[f"mean({name})"], self.stats_[f"std({name})"]
        return _scaled(values, mean, deviation)


class MinMaxScaler(ColumnPreprocessor):
    """Scale columns so that the smallest value becomes 0, and the largest 1.

    Args:
        columns: The columns that it works on.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    def _fit(self, ds: Dataset) -> dict[str, object]:
        lows = (agg.Min(column) for column in self.columns)
        highs = (agg.Max(column) for column in self.columns)
        return known_values(ds, self.columns).aggregate(*lows, *highs)

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        low, high = self.stats_[f"min({name})"], self.stats_[f"max({name})"]
        return _scaled(values, low, _distance(low, high))


class MaxAbsScaler(ColumnPreprocessor):
    """Scale columns so that no absolute value is above 1; zero stays zero.

    Args:
        columns: The columns that it works on.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    def _fit(self, ds: Dataset) -> dict[str, object]:
        largest = (agg.AbsMax(column) for column in self.columns)
        return known_values(ds, self.columns).aggregate(*largest)

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        return _scaled(values, 0, self.stats_[f"abs_max({name})"])


class RobustScaler(ColumnPreprocessor):
    """Scale columns to median 0 and distance of two quantiles 1: outliers do not count.

    Args:
        columns: The columns that it works on.
        quantile_range: The two quantiles, as shares between 0 and 1.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
        quantile_precision: Has no effect: quantiles are exact.

    Raises:
        ValueError: If `quantile_range` is no range between 0 and 1.
    """

    DEFAULT_QUANTILE_PRECISION = 800

    quantile_range: tuple[float, float]
    quantile_precision: int

    def __init__(
        self,
        columns: Sequence[str],
        quantile_range: tuple[float, float] = (0.25, 0.75),
        output_columns: Sequence[str] | None = None,
        quantile_precision: int = DEFAULT_QUANTILE_PRECISION,
    ) -> None:
        super().__init__(columns, output_columns)
        low, high = quantile_range
        if not 0 <= low < high <= 1:
            raise ValueError(f"quantile_range is such as (0.25, 0.75); got {quantile_range}")
        self.quantile_range = quantile_range
        self.quantile_precision = quantile_precision

    def _fit(self, ds: Dataset) -> dict[str, object]:
        low, high = self.quantile_range
        parts = (("low_quantile", low), ("median", 0.5), ("high_quantile", high))
        quantiles = (
            agg.Quantile(column, q=share, alias_name=f"{part}({column})")
            for column in self.columns
            for part, share in parts
        )
        return known_values(ds, self.columns).aggregate(*quantiles)

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        low, high = (self.stats_[f"{part}_quantile({name})"] for part in ("low", "high"))
        return _scaled(values, self.stats_[f"median({name})"], _distance(low, high))


class PowerTransformer(ColumnPreprocessor):
    """Bring columns closer to a normal distribution, by a power that is given.

    Args:
        columns: The columns that it works on.
        power: The exponent of the transform; 0 stands for the logarithm.
        method: "yeo-johnson" for any numbers, "box-cox" for positive ones.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.

    Raises:
        ValueError: If there is no such `method`.
    """

    _is_fittable = False
    power: float
    method: str

    def __init__(
        self,
        columns: Sequence[str],
        power: float,
        method: str = "yeo-johnson",
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        if method not in ("yeo-johnson", "box-cox"):
            raise ValueError(f'method takes "yeo-johnson" or "box-cox"; got {method!r}')
        self.power = power
        self.method = method

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        x = floats_of(values)
        if self.method == "box-cox":
            return _powered(x - 1, self.power)
        result = np.empty_like(x)
        positive = x >= 0
        result[positive] = _powered(x[positive], self.power)
        result[~positive] = -_powered(-x[~positive], 2 - self.power)
        return result


def _powered(x: pd.Series, power: float) -> pd.Series:
    return np.log1p(x) if power == 0 else ((x + 1) ** power - 1) / power


class Normalizer(ColumnPreprocessor):
    """Scale each row, taken over the columns, to length 1.

    Args:
        columns: The columns whose values make up the vector of a row.
        norm: How length is measured: "l2" is the root of the sum of squares, "l1" the sum of
            absolute values, "max" the largest absolute value.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.

    Raises:
        ValueError: If there is no such `norm`.
    """

    _is_fittable = False
    norm: str

    def __init__(
        self,
        columns: Sequence[str],
        norm: str = "l2",
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        if norm not in ("l1", "l2", "max"):
            raise ValueError(f'norm takes "l1", "l2" or "max"; got {norm!r}')
        self.norm = norm

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        check_columns(self.columns, list(df.columns))
        values = floats_of(df[self.columns])
        order: Any = {"l1": 1, "l2": 2, "max": np.inf}[self.norm]
        known = np.nan_to_num(values)  # missing numbers stay missing, and do not count
        lengths = np.linalg.norm(known, order, axis=1, keepdims=True)
        scaled = values / np.where(lengths < _TINY, 1, lengths)
        new = {name: scaled[:, number] for number, name in enumerate(self.output_columns)}
        return df.assign(**new)
