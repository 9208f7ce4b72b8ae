"""Text as words, and words as numbers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from skate.data._arrow.blocks import check_columns
from skate.data.preprocessors.base import (
    BuiltinPreprocessor,
    ColumnPreprocessor,
    CountingPreprocessor,
    floats_of,
    numbers_of,
)

if TYPE_CHECKING:
    import pandas as pd

    from skate._core.arrays import Array
    from skate.data.dataset import Dataset

Split = Callable[[str], Sequence[str]]


def simple_split_tokenizer(text: str) -> list[str]:
    """Split a text at each space."""
    return text.split(" ")


def _bucket(word: str, count: int) -> int:
    """Choose the bucket of a word, the same in every process, unlike hash()."""
    return int.from_bytes(hashlib.sha256(word.encode()).digest(), "big") % count


class Tokenizer(ColumnPreprocessor):
    """Split texts into lists of words.

    Args:
        columns: The columns that it works on.
        tokenization_fn: Splits a text into words; by default at spaces.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    _is_fittable = False
    tokenization_fn: Callable[[str], Sequence[str]]

    def __init__(
        self,
        columns: Sequence[str],
        tokenization_fn: Split | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.tokenization_fn = tokenization_fn or simple_split_tokenizer

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        present = values.notna()
        words = map(self.tokenization_fn, values[present])
        return _placed([list(each) for each in words], present)


class CountVectorizer(CountingPreprocessor):
    """Replace each text by a vector that counts its words, among those of the fitted dataset.

    Args:
        columns: The columns that it works on.
        tokenization_fn: Splits a text into words; by default at spaces.
        max_features: How many words to know: the most frequent. By default all. The most frequent
            word has the first place in the vector.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    tokenization_fn: Callable[[str], Sequence[str]]
    max_features: int | None

    def __init__(
        self,
        columns: Sequence[str],
        tokenization_fn: Split | None = None,
        max_features: int | None = None,
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.tokenization_fn = tokenization_fn or simple_split_tokenizer
        self.max_features = max_features

    def _fit(self, ds: Dataset) -> dict[str, object]:
        counts: dict[str, Counter[str]] = {column: Counter() for column in self.columns}
        for block in ds.select_columns(list(self.columns))._blocks():
            for column in self.columns:
                for text in block[column].drop_null().to_pylist():
                    counts[column].update(self.tokenization_fn(text))
        return {
            f"token_counts({column})": Counter(dict(c.most_common(self.max_features)))
            for column, c in counts.items()
        }

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        places = {word: n for n, word in enumerate(self.stats_[f"token_counts({name})"])}
        present = values.notna()
        vectors = np.zeros((int(present.sum()), len(places)), np.int64)
        for row, text in enumerate(values[present]):
            for word in self.tokenization_fn(text):
                if word in places:
                    vectors[row, places[word]] += 1
        return _placed(list(vectors), present)


class HashingVectorizer(CountingPreprocessor):
    """Replace each text by a vector that counts words by their hash: needs no fitting.

    Args:
        columns: The columns that it works on.
        num_features: The length of the vectors; words with the same hash share a place.
        tokenization_fn: Splits a text into words; by default at spaces.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
    """

    _is_fittable = False
    tokenization_fn: Callable[[str], Sequence[str]]
    num_features: int

    def __init__(
        self,
        columns: Sequence[str],
        num_features: int,
        tokenization_fn: Split | None = None,
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.num_features = num_features
        self.tokenization_fn = tokenization_fn or simple_split_tokenizer

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        present = values.notna()
        vectors = np.zeros((int(present.sum()), self.num_features), np.int64)
        for row, text in enumerate(values[present]):
            for word in self.tokenization_fn(text):
                vectors[row, _bucket(word, self.num_features)] += 1
        return _placed(list(vectors), present)


def _placed(results: list[object], present: pd.Series) -> list[object]:
    """Spread the results over the texts, with None where there is none."""
    following = iter(results)
    return [next(following) if there else None for there in present]


class FeatureHasher(BuiltinPreprocessor):
    """Add up columns of counts in one vector, by the hash of the columns' names.

    Args:
        columns: The columns that it works on.
        num_features: The length of the vector; columns with the same hash share a place.
        output_column: The column for the vectors.
    """

    _is_fittable = False
    num_features: int
    output_column: str

    def __init__(self, columns: Sequence[str], num_features: int, output_column: str) -> None:
        self.columns: Sequence[str] = list(columns)
        self.num_features = num_features
        self.output_column = output_column
        self.output_columns: Sequence[str] = [output_column]

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        check_columns(self.columns, list(df.columns))
        vectors = np.zeros((len(df), self.num_features))
        for name in self.columns:
            vectors[:, _bucket(name, self.num_features)] += floats_of(numbers_of(df[name]))
        return df.assign(**{self.output_column: list(vectors)})
