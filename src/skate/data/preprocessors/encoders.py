"""Categories as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._imports import try_import
from skate.data._blocks import check_columns
from skate.data._tensors import column_to_rows
from skate.data.preprocessor import ColumnPreprocessor, Preprocessor

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


def counts_of(ds: Dataset, columns: Sequence[str], lists: bool = True) -> dict[str, Counter[Any]]:
    """How often each value occurs; with `lists`, elements of lists count one by one."""
    found: dict[str, Counter[Any]] = {column: Counter() for column in columns}
    for block in ds.select_columns(list(columns))._blocks():
        for column in columns:
            found[column].update(_values(column_to_rows(block[column]), lists))
    for column, counter in found.items():
        if any(value is None or value != value for value in counter):
            raise ValueError(
                f"column {column!r} has missing values; fill them with a SimpleImputer first"
            )
    return found


def check_present(name: str, values: Any) -> None:
    """Raise if something is missing: it has no place among the categories."""
    if values.isna().any():
        raise ValueError(
            f"column {name!r} has missing values; fill them with a SimpleImputer first"
        )


def _values(rows: Iterable[Any], lists: bool) -> Iterable[Any]:
    for row in rows:
        if isinstance(row, (list, tuple, np.ndarray)):
            items = row.tolist() if isinstance(row, np.ndarray) else row
            yield from items if lists else [tuple(items)]
        else:
            yield row


def _numbered(counter: Counter[Any], largest: int | None = None) -> dict[Any, int]:
    """Values in order; with `largest`, the most frequent ones only."""
    kept = counter if largest is None else dict(counter.most_common(largest))
    return {value: number for number, value in enumerate(sorted(kept))}


class OrdinalEncoder(ColumnPreprocessor):
    """Each category is its number in sorted order; unknown ones are missing."""

    def __init__(
        self,
        columns: Sequence[str],
        *,
        encode_lists: bool = True,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.encode_lists = encode_lists

    def _fit(self, ds: Dataset) -> dict[str, Any]:
        counts = counts_of(ds, self.columns, self.encode_lists)
        return {f"unique_values({column})": _numbered(c) for column, c in counts.items()}

    def _column(self, name: str, values: Any) -> Any:
        check_present(name, values)
        numbers = self.stats_[f"unique_values({name})"]

        def encode(value: Any) -> Any:
            if isinstance(value, (list, tuple, np.ndarray)):
                if self.encode_lists:
                    return [numbers.get(item) for item in value]
                return numbers.get(tuple(value))
            return numbers.get(value)

        return values.map(encode)


class OneHotEncoder(ColumnPreprocessor):
    """Each category is a vector with a single 1; unknown ones have none."""

    def __init__(
        self,
        columns: Sequence[str],
        *,
        max_categories: Mapping[str, int] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.max_categories = dict(max_categories or {})
        check_columns(list(self.max_categories), self.columns)

    def _fit(self, ds: Dataset) -> dict[str, Any]:
        counts = counts_of(ds, self.columns, lists=False)
        return {
            f"unique_values({column})": _numbered(counter, self.max_categories.get(column))
            for column, counter in counts.items()
        }

    def _column(self, name: str, values: Any) -> Any:
        check_present(name, values)
        numbers = self.stats_[f"unique_values({name})"]
        vectors = np.zeros((len(values), len(numbers)), np.uint8)
        for row, value in enumerate(values):
            key = tuple(value) if isinstance(value, (list, np.ndarray)) else value
            place = numbers.get(key)
            if place is not None:
                vectors[row, place] = 1
        return list(vectors)


class MultiHotEncoder(OneHotEncoder):
    """Each list of categories is a vector that counts them."""

    def _fit(self, ds: Dataset) -> dict[str, Any]:
        counts = counts_of(ds, self.columns, lists=True)
        return {
            f"unique_values({column})": _numbered(counter, self.max_categories.get(column))
            for column, counter in counts.items()
        }

    def _column(self, name: str, values: Any) -> Any:
        check_present(name, values)
        numbers = self.stats_[f"unique_values({name})"]
        vectors = np.zeros((len(values), len(numbers)), np.int64)
        for row, value in enumerate(values):
            for item in value if isinstance(value, (list, tuple, np.ndarray)) else [value]:
                place = numbers.get(item)
                if place is not None:
                    vectors[row, place] += 1
        return list(vectors)


class LabelEncoder(ColumnPreprocessor):
    """The labels as numbers, and back."""

    def __init__(self, label_column: str, *, output_column: str | None = None) -> None:
        super().__init__([label_column], [output_column] if output_column else None)
        self.label_column = label_column
        self.output_column = self.output_columns[0]

    def _fit(self, ds: Dataset) -> dict[str, Any]:
        counts = counts_of(ds, self.columns, lists=False)
        return {f"unique_values({self.label_column})": _numbered(counts[self.label_column])}

    def _column(self, name: str, values: Any) -> Any:
        check_present(name, values)
        return values.map(self.stats_[f"unique_values({name})"].get)

    def inverse_transform(self, ds: Dataset) -> Dataset:
        """The dataset with the labels instead of their numbers."""
        self._check_fitted()
        labels = {
            n: label for label, n in self.stats_[f"unique_values({self.label_column})"].items()
        }
        source, target = self.output_columns[0], self.label_column

        def decode(frame: Any) -> Any:
            return frame.assign(**{target: frame[source].map(labels.get)})

        return ds.map_batches(decode, batch_format="pandas")


class Categorizer(Preprocessor):
    """Columns as pandas categories."""

    def __init__(
        self,
        columns: Sequence[str],
        dtypes: Mapping[str, Any] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        self.columns = list(columns)
        self.output_columns = list(output_columns or columns)
        self.dtypes = dict(dtypes or {})

    def _fit(self, ds: Dataset) -> dict[str, Any]:
        pandas = try_import("pandas", "data")
        open_ = [column for column in self.columns if column not in self.dtypes]
        found = {column: sorted(ds.unique(column, ignore_nulls=True)) for column in open_}
        made = {column: pandas.CategoricalDtype(values) for column, values in found.items()}
        return {**self.dtypes, **made}

    def _transform(self, batch: Any) -> Any:
        check_columns(self.columns, list(batch.columns))
        pairs = zip(self.columns, self.output_columns, strict=True)
        return batch.assign(**{out: batch[name].astype(self.stats_[name]) for name, out in pairs})
