"""Dataset: numbers about all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate._core.plain_errors import methods_failing_plainly
from skate.data import aggregate as agg
from skate.data._api.consuming import Consuming
from skate.data._arrow.blocks import check_columns

if TYPE_CHECKING:
    from skate.data.dataset import Dataset
    from skate.data.stats import DatasetSummary


@methods_failing_plainly
class Aggregating(Consuming):
    """Results are computed block by block and joined: the rows never have to be in memory."""

    def aggregate(self, *aggs: agg.AggregateFn) -> dict[str, Any]:
        """Compute numbers about all rows.

        Args:
            *aggs: Aggregations, such as `Mean("x")`; see `skate.data.aggregate`.

        Returns:
            The results by name.

        Raises:
            ValueError: If there is no aggregation, or no such column.

        Example:
            >>> from skate.data.aggregate import Max, Mean
            >>> skate.data.range(4).aggregate(Mean("id"), Max("id"))
            {'mean(id)': 1.5, 'max(id)': 3}
        """
        if not aggs:
            raise ValueError("aggregate needs at least one aggregation, such as Mean('x')")
        agg.check_targets(aggs)
        aggs = agg.distinct_names(aggs)
        rows = self._only(agg.columns_read(aggs))
        found = rows._totals(aggs)
        if found is not None:
            self._stats = rows._stats
            return dict(zip((function.name for function in aggs), found, strict=True))
        states = [function.zero() for function in aggs]
        for block in rows._blocks():
            if block.num_rows:
                states = [f.add(s, block) for f, s in zip(aggs, states, strict=True)]
        self._stats = rows._stats
        return {f.name: f.finalize(s) for f, s in zip(aggs, states, strict=True)}

    def summary(
        self,
        columns: Sequence[str] | None = None,
        override_dtype_agg_mapping: Mapping[object, Callable[[str], object]] | None = None,
    ) -> DatasetSummary:
        """Compute numbers about columns: count, mean, extremes, as far as a type has them.

        Also the share of missing values and, of text, the most frequent values.

        Args:
            columns: The columns; None is all.
            override_dtype_agg_mapping: Other aggregations for types, as in `{DataType.int64():
                lambda column: [Sum(column)]}`.

        Returns:
            A summary, whose `to_pandas()` is a table.
        """
        from skate.data.stats import summarised

        return summarised(self, columns, override_dtype_agg_mapping)  # type: ignore[arg-type]

    def sum(self, on: str | Sequence[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Add up columns.

        Args:
            on: A column, or several; None is all that hold numbers.
            ignore_nulls: Whether missing values are left out; if not, one of them makes the result
                None.

        Returns:
            A number for one column; a dictionary such as `{"sum(x)": 4}` for several; None if
            there are no columns.

        Example:
            >>> skate.data.range(4).sum("id")
            6
        """
        return self._one(agg.Sum, on, ignore_nulls=ignore_nulls)

    def min(self, on: str | Sequence[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Find the smallest value of columns.

        Args:
            on: A column, or several; None is all that hold numbers, text or times.
            ignore_nulls: As in `sum`.

        Returns:
            As in `sum`.

        Example:
            >>> skate.data.range(4).min("id")
            0
        """
        return self._one(agg.Min, on, ignore_nulls=ignore_nulls)

    def max(self, on: str | Sequence[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Find the greatest value of columns.

        Args:
            on: A column, or several; None is all that hold numbers, text or times.
            ignore_nulls: As in `sum`.

        Returns:
            As in `sum`.

        Example:
            >>> skate.data.range(4).max("id")
            3
        """
        return self._one(agg.Max, on, ignore_nulls=ignore_nulls)

    def mean(self, on: str | Sequence[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Compute the mean of columns.

        Args:
            on: As in `sum`.
            ignore_nulls: As in `sum`.

        Returns:
            As in `sum`.

        Example:
            >>> skate.data.range(4).mean("id")
            1.5
        """
        return self._one(agg.Mean, on, ignore_nulls=ignore_nulls)

    def std(
        self, on: str | Sequence[str] | None = None, ddof: int = 1, ignore_nulls: bool = True
    ) -> Any:
        """Compute the standard deviation of columns.

        Args:
            on: As in `sum`.
            ddof: What is subtracted from the number of rows: 1 for a sample, 0 for all there is.
            ignore_nulls: As in `sum`.

        Returns:
            As in `sum`.

        Example:
            >>> skate.data.from_items([{"x": 1}, {"x": 3}]).std("x", ddof=0)
            1.0
        """
        return self._one(agg.Std, on, ddof=ddof, ignore_nulls=ignore_nulls)

    def unique(self, column: str, ignore_nulls: bool = False) -> list[Any]:
        """Return the distinct values of a column.

        Args:
            column: The column.
            ignore_nulls: Whether None is left out.

        Raises:
            ValueError: If there is no such column.

        Example:
            >>> ds = skate.data.from_items([{"x": "a"}, {"x": "b"}, {"x": "a"}])
            >>> sorted(ds.unique("x"))
            ['a', 'b']
        """
        self._check_column(column)
        found = self.aggregate(agg.Unique(column, ignore_nulls=ignore_nulls))
        values: list[Any] = next(iter(found.values()))
        return values

    def _one(
        self,
        make: Callable[..., agg.AggregateFn],
        on: str | Sequence[str] | None,
        **arguments: object,
    ) -> object:
        """Compute one number for one column; a dictionary for several."""
        columns = self._aggregated_columns(make, on)
        if not columns:
            return None
        found = self.aggregate(*(make(column, **arguments) for column in columns))
        if len(columns) == 1:
            return next(iter(found.values()))
        return found

    def _aggregated_columns(
        self,
        make: Callable[..., agg.AggregateFn],
        on: str | Sequence[str] | None,
        exclude: Sequence[str] = (),
    ) -> list[str]:
        """Find the columns that are meant: those given, or all that hold numbers; where the
        smallest or greatest value is asked for, also those of text and times."""
        schema = self.schema()
        if schema is None:
            return []
        if on is not None:
            columns = [on] if isinstance(on, str) or not isinstance(on, Sequence) else list(on)
            for column in columns:
                if not isinstance(column, str):
                    raise ValueError(f"a column is given by a string; got {column!r}")
            check_columns(columns, schema.names)
            return columns
        pairs = zip(schema.names, schema.base_schema.types, strict=True)
        fits = _has_order if make in (agg.Min, agg.Max) else _is_number
        return [name for name, kind in pairs if name not in exclude and fits(kind)]

    def _only(self, columns: Sequence[str] | None) -> Dataset:
        """Select the columns that are needed, so that files are not read for others; None: all."""
        rows = self._with(self._plan)
        return rows if columns is None else rows.select_columns(columns)

    def _check_column(self, column: str) -> None:
        schema = self.schema()
        if schema is not None:
            check_columns([column], schema.names)


def _has_order(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(_is_number(kind) or is_text or pa.types.is_temporal(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )
