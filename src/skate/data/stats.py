"""`Dataset.summary()`: a table of numbers about each column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate._core.optional_imports import try_import
from skate.data import aggregate as agg
from skate.data._arrow.blocks import check_columns
from skate.data._arrow.tensors import is_object
from skate.data.datatype import DataType, TypeCategory

if TYPE_CHECKING:
    import pandas

    from skate.data.dataset import Dataset

__all__ = ["DatasetSummary"]

Aggregations = Callable[[str], Sequence[agg.AggregateFnV2]]
STATISTIC = "statistic"


def _of_numbers(column: str) -> list[agg.AggregateFnV2]:
    return [
        agg.Count(column, ignore_nulls=False),
        agg.Mean(column),
        agg.Min(column),
        agg.Max(column),
        agg.Std(column, ddof=0),
        agg.ApproximateQuantile(column, quantiles=[0.5]),
        agg.MissingValuePercentage(column),
        agg.ZeroPercentage(column),
    ]


def _of_times(column: str) -> list[agg.AggregateFnV2]:
    return [
        agg.Count(column, ignore_nulls=False),
        agg.Min(column),
        agg.Max(column),
        agg.MissingValuePercentage(column),
    ]


def _of_others(column: str) -> list[agg.AggregateFnV2]:
    return [
        agg.Count(column, ignore_nulls=False),
        agg.MissingValuePercentage(column),
        agg.ApproximateTopK(column, k=10),
    ]


def _default(kind: DataType) -> Aggregations:
    if kind.is_of(TypeCategory.TEMPORAL):
        return _of_times
    if kind.is_numerical_type() or pa.types.is_boolean(kind.to_arrow_dtype()):
        return _of_numbers
    if pa.types.is_null(kind.to_arrow_dtype()):
        return lambda column: [agg.Count(column, ignore_nulls=False)]
    return _of_others


def _chosen(kind: DataType, given: Mapping[Any, Aggregations]) -> Aggregations:
    for wanted, make in given.items():
        if kind == wanted or (not isinstance(wanted, DataType) and kind.is_of(wanted)):
            return make
    return _default(kind)


@dataclass
class DatasetSummary:
    """Tell numbers about the columns: `to_pandas()` of all, `get_column_stats(name)` of one.

    `Dataset.summary` returns it.

    Args:
        dataset_schema: The schema of the dataset.
        columns: The names of the columns that it is about.
    """

    dataset_schema: pa.Schema
    columns: list[str]
    _values: dict[str, dict[str, Any]] = field(repr=False)  # by column, by statistic

    def to_pandas(self) -> pandas.DataFrame:
        """Make a frame with a row per statistic, sorted by its name, and a column per column."""
        frames = try_import("pandas", "data")
        names = sorted({name for values in self._values.values() for name in values})
        columns = {
            column: [values.get(name) for name in names]
            for column, values in sorted(self._values.items())
        }
        return frames.DataFrame({STATISTIC: names, **columns})

    def get_column_stats(self, column: str) -> pandas.DataFrame:
        """Return the statistics of one column, in the columns `statistic` and `value`.

        Args:
            column: The column.

        Raises:
            ValueError: If there is no such column.
        """
        if column not in self._values:
            raise ValueError(
                f"the summary has no column {column!r}; it has {sorted(self._values)}"
            )
        table = self.to_pandas()[[STATISTIC, column]]
        return table.rename(columns={column: "value"})


def summarised(
    ds: Dataset, columns: Sequence[str] | None, given: Mapping[object, Aggregations] | None
) -> DatasetSummary:
    """Summarise a dataset; columns of Python objects are left out."""
    schema = ds.schema()
    if schema is None:
        raise ValueError("a summary needs columns; the dataset is empty")
    names = schema.names if columns is None else list(columns)
    check_columns(names, schema.names)
    arrow = schema.base_schema
    aggregations = [
        each
        for name in names
        if not is_object(arrow.field(name).type)
        for each in _chosen(DataType(arrow.field(name).type), given or {})(name)
    ]
    if not aggregations:
        raise ValueError(f"a summary needs a column that is no Python object; got {names}")
    found = ds.aggregate(*aggregations)
    values: dict[str, dict[str, Any]] = {}
    for each in aggregations:
        if each.on is not None:
            values.setdefault(each.on, {}).update(_entries(each, found[each.name]))
    return DatasetSummary(arrow, list(values), values)


def _entries(aggregation: agg.AggregateFnV2, value: object) -> dict[str, Any]:
    """Make one entry, or an entry for each of several values."""
    name = aggregation.get_agg_name()
    if isinstance(value, list):
        return {f"{name}[{number}]": each for number, each in enumerate(value)}
    return {name: value}
