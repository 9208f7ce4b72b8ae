"""Categories as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import check_columns
from skate.data.preprocessors.base import (
    BuiltinPreprocessor,
    ColumnPreprocessor,
    known_values,
    outputs_of,
)
from skate.data.preprocessors.counting import LISTS, counts_of, places_of

if TYPE_CHECKING:
    import pandas as pd

    from skate._core.arrays import Array
    from skate.data.dataset import Dataset


def categories_of(
    ds: Dataset, columns: Sequence[str], lists: bool, largest: Mapping[str, int] | None = None
) -> dict[str, dict[Any, int]]:
    """Number the values of each column, in order; with `largest`, the most frequent only."""
    found = {}
    for column, counter in counts_of(ds, columns, lists).items():
        if any(value is None or value != value for value in counter):
            raise _missing(column)
        most = (largest or {}).get(column)
        kept = sorted(counter if most is None else dict(counter.most_common(most)))
        found[f"unique_values({column})"] = {value: number for number, value in enumerate(kept)}
    return found


def check_present(name: str, values: pd.Series) -> None:
    """Raise if something is missing: it has no place among the categories."""
    if values.isna().any():
        raise _missing(name)


def _missing(column: str) -> ValueError:
    return ValueError(f"column {column!r} has null values; fill them with a SimpleImputer first")


def _numbers(values: pd.Series, known: Mapping[object, int]) -> pd.Series:
    """Return the numbers of the values, missing for unknown ones."""
    pandas = try_import("pandas", "data")
    places = places_of(values, known)
    series = pandas.Series(places, values.index, np.int64)
    return series if (places >= 0).all() else series.where(places >= 0)


class OrdinalEncoder(ColumnPreprocessor):
    """Replace each category by its number in sorted order; unknown ones become missing.

    Args:
        columns: The columns that it works on.
        encode_lists: Whether the items of lists are categories, and not lists as a whole.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.

    Example:
        >>> import skate.data
        >>> from skate.data.preprocessors import OrdinalEncoder
        >>> sizes = skate.data.from_items([{"size": "s"}, {"size": "l"}])
        >>> OrdinalEncoder(["size"]).fit_transform(sizes).take_all()
        [{'size': 1}, {'size': 0}]
    """

    encode_lists: bool

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
        return categories_of(ds, self.columns, self.encode_lists)

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        check_present(name, values)
        numbers = self.stats_[f"unique_values({name})"]
        if self.encode_lists and any(isinstance(value, LISTS) for value in values):
            return values.map(lambda items: [numbers.get(item) for item in items])
        return _numbers(values, numbers)


class OneHotEncoder(ColumnPreprocessor):
    """Replace each category by a vector with a single 1; that of an unknown one has none.

    Args:
        columns: The columns that it works on.
        max_categories: How many categories to keep, by column: the most frequent. Others count as
            unknown. By default all are kept.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.

    Example:
        >>> import skate.data
        >>> from skate.data.preprocessors import OneHotEncoder
        >>> sizes = skate.data.from_items([{"size": "s"}, {"size": "l"}])
        >>> rows = OneHotEncoder(["size"]).fit_transform(sizes).take_all()
        >>> [row["size"].tolist() for row in rows]
        [[0, 1], [1, 0]]
    """

    _lists = False

    max_categories: dict[str, int]

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
        return categories_of(ds, self.columns, self._lists, self.max_categories)

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        check_present(name, values)
        numbers = self.stats_[f"unique_values({name})"]
        places = places_of(values, numbers)
        rows = np.flatnonzero(places >= 0)
        vectors = np.zeros((len(values), len(numbers)), np.uint8)
        vectors[rows, places[rows]] = 1
        return list(vectors)


class MultiHotEncoder(OneHotEncoder):
    """Replace each list of categories by a list that counts them.

    Args:
        columns: The columns of lists that it works on.
        max_categories: How many categories to keep, by column: the most frequent. Others count as
            unknown. By default all are kept.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    _lists = True

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        check_present(name, values)
        pandas = try_import("pandas", "data")
        numbers = self.stats_[f"unique_values({name})"]
        items = [value if isinstance(value, LISTS) else [value] for value in values]
        rows = np.repeat(np.arange(len(items)), [len(each) for each in items])
        places = places_of(pandas.Series(list(chain.from_iterable(items)), dtype=object), numbers)
        vectors = np.zeros((len(values), len(numbers)), np.int64)
        np.add.at(vectors, (rows[places >= 0], places[places >= 0]), 1)
        return vectors.tolist()


class LabelEncoder(ColumnPreprocessor):
    """Replace labels by their numbers in sorted order; `inverse_transform` is the way back.

    Args:
        label_column: The column of the labels.
        output_column: The column for the numbers; by default they replace the labels.
    """

    label_column: str
    output_column: str

    def __init__(self, label_column: str, *, output_column: str | None = None) -> None:
        super().__init__([label_column], [output_column] if output_column else None)
        self.label_column = label_column
        self.output_column = self.output_columns[0]

    def _fit(self, ds: Dataset) -> dict[str, Any]:
        return categories_of(ds, self.columns, lists=False)

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        check_present(name, values)
        return _numbers(values, self.stats_[f"unique_values({name})"])

    def inverse_transform(self, ds: Dataset) -> Dataset:
        """Return the dataset with the labels that belong to its numbers.

        Args:
            ds: A dataset with a column of such numbers, as predictions are.
        """
        self._check_fitted()
        labels = {
            n: label for label, n in self.stats_[f"unique_values({self.label_column})"].items()
        }
        source, target = self.output_columns[0], self.label_column

        def decode(frame: pd.DataFrame) -> pd.DataFrame:
            return frame.assign(**{target: frame[source].map(labels.get)})

        return ds.map_batches(decode, batch_format="pandas")


class Categorizer(BuiltinPreprocessor):
    """Turn columns into pandas categories.

    Args:
        columns: The columns that it works on.
        dtypes: The `pandas.CategoricalDtype` of columns whose categories are known; those of the
            others are taken from the dataset.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    dtypes: dict[str, Any]

    def __init__(
        self,
        columns: Sequence[str],
        dtypes: Mapping[str, object] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        self.columns: Sequence[str] = list(columns)
        self.output_columns: Sequence[str] = outputs_of(self.columns, output_columns)
        self.dtypes = dict(dtypes or {})

    def _fit(self, ds: Dataset) -> dict[str, Any]:
        pandas = try_import("pandas", "data")
        open_ = [column for column in self.columns if column not in self.dtypes]
        found = counts_of(known_values(ds, open_), open_, lists=False) if open_ else {}
        made = {
            column: pandas.CategoricalDtype(sorted(v for v in counts if v is not None))
            for column, counts in found.items()
        }
        return {**self.dtypes, **made}

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        check_columns(self.columns, list(df.columns))
        pairs = zip(self.columns, self.output_columns, strict=True)
        return df.assign(**{out: df[name].astype(self.stats_[name]) for name, out in pairs})
