"""Missing values, several columns in one, and torchvision's transforms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skate.data import aggregate as agg
from skate.data._blocks import check_columns
from skate.data._tensors import to_array
from skate.data.preprocessor import ColumnPreprocessor, Preprocessor, known_values
from skate.data.preprocessors.counting import counts_of

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class SimpleImputer(ColumnPreprocessor):
    """Missing values become the mean, the most frequent value, or a constant."""

    def __init__(
        self,
        columns: Sequence[str],
        strategy: str = "mean",
        fill_value: Any = None,
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        if strategy not in ("mean", "most_frequent", "constant"):
            raise ValueError(
                f'strategy takes "mean", "most_frequent" or "constant"; got {strategy!r}'
            )
        if strategy == "constant" and fill_value is None:
            raise ValueError('strategy "constant" needs a fill_value')
        self.strategy = strategy
        self.fill_value = fill_value

    @property
    def _learns(self) -> bool:
        return self.strategy != "constant"

    def _fit(self, ds: Dataset) -> dict[str, Any]:
        known = known_values(ds, self.columns)
        if self.strategy == "mean":
            return known.aggregate(*(agg.Mean(column) for column in self.columns))
        counts = counts_of(known, self.columns, lists=False)
        return {f"most_frequent({column})": _most_frequent(c) for column, c in counts.items()}

    def _column(self, name: str, values: Any) -> Any:
        value = self.stats_[f"{self.strategy}({name})"] if self._learns else self.fill_value
        if value is None:
            raise ValueError(f"column {name!r} has no values to learn a filling from")
        return values.fillna(value)


def _most_frequent(counts: Counter[Any]) -> Any:
    """Of several the smallest."""
    known = [value for value in counts if value is not None]
    return min(known, key=lambda value: (-counts[value], value), default=None)


class Concatenator(Preprocessor):
    """Columns of numbers and vectors as one column of vectors."""

    def __init__(
        self,
        columns: Sequence[str],
        output_column_name: str = "concat_out",
        dtype: Any = None,
        raise_if_missing: bool = False,
        flatten: bool = False,
    ) -> None:
        self.columns = list(columns)
        self.output_column_name = output_column_name
        self.output_columns = [output_column_name]
        self.dtype = dtype
        self.raise_if_missing = raise_if_missing
        self.flatten = flatten

    def _transform(self, batch: Any) -> Any:
        there = [name for name in self.columns if name in batch.columns]
        if self.raise_if_missing:
            check_columns(self.columns, list(batch.columns))
        parts = [self._part(batch[name]) for name in there]
        joined = np.concatenate(parts, axis=1)
        if self.dtype is not None:
            joined = joined.astype(self.dtype)
        return batch.drop(columns=there).assign(**{self.output_column_name: list(joined)})

    def _part(self, values: Any) -> Any:
        if values.dtype != object:
            return values.to_numpy()[:, None]
        stacked = np.stack([np.asarray(value) for value in values])
        if stacked.ndim > 2 and not self.flatten:
            raise ValueError(
                f"column {values.name!r} holds arrays of shape {stacked.shape[1:]}; "
                "flatten=True makes vectors of them"
            )
        return stacked.reshape(len(stacked), -1)


class TorchVisionPreprocessor(Preprocessor):
    """A transform of torchvision on columns of images."""

    batch_format = "numpy"

    def __init__(
        self,
        columns: Sequence[str],
        transform: Callable[[Any], Any],
        output_columns: Sequence[str] | None = None,
        batched: bool = False,
    ) -> None:
        self.columns = list(columns)
        self.output_columns = list(output_columns or columns)
        self.torchvision_transform = transform
        self.batched = batched

    def _transform(self, batch: dict[str, Any]) -> dict[str, Any]:
        check_columns(self.columns, list(batch))
        pairs = zip(self.columns, self.output_columns, strict=True)
        return {**batch, **{out: self._images(batch[name]) for name, out in pairs}}

    def _images(self, images: Any) -> Any:
        if self.batched:
            return to_array(self.torchvision_transform(images))
        return [to_array(self.torchvision_transform(image)) for image in images]
