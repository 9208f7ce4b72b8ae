"""Missing values, several columns in one, and torchvision's transforms."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.optional_imports import try_import
from skate.data import aggregate as agg
from skate.data._arrow.blocks import check_columns
from skate.data._arrow.tensors import to_array
from skate.data.preprocessors.base import (
    BuiltinPreprocessor,
    ColumnPreprocessor,
    floats_of,
    known_values,
    numbers_of,
    outputs_of,
)
from skate.data.preprocessors.counting import counts_of

if TYPE_CHECKING:
    import pandas as pd

    from skate._core.arrays import Array
    from skate.data.dataset import Dataset


class SimpleImputer(ColumnPreprocessor):
    """Fill in missing values: with the mean, the most frequent value, or a constant.

    Args:
        columns: The columns that it works on.
        strategy: "mean", "most_frequent" or "constant".
        fill_value: What to fill in, with the strategy "constant".
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.

    Raises:
        ValueError: If there is no such strategy, or "constant" comes without a `fill_value`.

    Example:
        >>> import skate.data
        >>> from skate.data.preprocessors import SimpleImputer
        >>> ages = skate.data.from_items([{"age": 20.0}, {"age": None}, {"age": 40.0}])
        >>> SimpleImputer(["age"]).fit_transform(ages).take_all()
        [{'age': 20.0}, {'age': 30.0}, {'age': 40.0}]
    """

    strategy: str
    fill_value: Any

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
        self._is_fittable = strategy != "constant"

    def _fit(self, ds: Dataset) -> dict[str, object]:
        known = known_values(ds, self.columns)
        if self.strategy == "mean":
            return known.aggregate(*(agg.Mean(column) for column in self.columns))
        counts = counts_of(known, self.columns, lists=False)
        return {f"most_frequent({column})": _most_frequent(c) for column, c in counts.items()}

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        """Fill missing values; a column that a batch lacks altogether is missing in each row."""
        pandas = try_import("pandas", "data")
        absent = [name for name in self.columns if name not in df.columns]
        empty = {name: pandas.Series([None] * len(df), df.index, object) for name in absent}
        filled = super()._transform_pandas(df.assign(**empty))
        return filled.drop(columns=[name for name in absent if name not in self.output_columns])

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        constant = self.strategy == "constant"
        value = self.fill_value if constant else self.stats_[f"{self.strategy}({name})"]
        if value is None:
            raise ValueError(f"column {name!r} has no fill value: all its values were missing")
        return _filled(values, value)


def _filled(values: pd.Series, value: object) -> pd.Series:
    if not values.isna().any():
        return values
    if hasattr(values, "cat"):
        if value not in values.cat.categories:
            values = values.cat.add_categories([value])
    elif isinstance(value, float) and str(values.dtype).lower().startswith(("int", "uint")):
        values = values.astype("double[pyarrow]" if _is_arrow(values) else "Float64")
    return values.fillna(value).infer_objects()


def _is_arrow(values: pd.Series) -> bool:
    return str(values.dtype).endswith("[pyarrow]")


def _most_frequent(counts: Counter[object]) -> Any:
    """Find the value that is most frequent; of several the one that comes first in the dataset."""
    known = [value for value in counts if value is not None]
    return max(known, key=lambda value: counts[value], default=None)


class Concatenator(BuiltinPreprocessor):
    """Join columns of numbers and vectors into one column of vectors.

    Args:
        columns: The columns to join, in this order; by default all.
        output_column_name: The column for the vectors. The columns that were joined go away.
        dtype: The NumPy type of the vectors; by default what the columns have in common.
        raise_if_missing: Whether a column that a batch does not have is an error. Otherwise it is
            left out.
        flatten: Whether arrays of several dimensions become vectors first. Otherwise they are
            refused.
        include: The older name of `columns`.
        exclude: Columns to leave out, where all or those of `include` are joined.

    Raises:
        ValueError: If both `columns` and one of the older names are given.
    """

    _is_fittable = False
    output_column_name: str
    dtype: Any
    raise_if_missing: bool
    flatten: bool

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        output_column_name: str = "concat_out",
        dtype: Any = None,
        raise_if_missing: bool = False,
        flatten: bool = False,
        *,
        include: Sequence[str] | None = None,
        exclude: str | Sequence[str] | None = None,
    ) -> None:
        if columns is not None and (include is not None or exclude is not None):
            raise ValueError("give columns, or include and exclude, not both")
        chosen = include if columns is None else columns
        self.exclude: list[str] = [exclude] if isinstance(exclude, str) else list(exclude or ())
        self.columns: Sequence[str] = [name for name in chosen or () if name not in self.exclude]
        self._takes_all = chosen is None
        self.output_column_name = output_column_name
        self.output_columns: Sequence[str] = [output_column_name]
        self.dtype = dtype
        self.raise_if_missing = raise_if_missing
        self.flatten = flatten

    def __repr__(self) -> str:
        given = {
            name: getattr(self, name)
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if getattr(self, name, parameter.default) not in (parameter.default, [])
        }
        return f"Concatenator({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        names = list(df.columns)
        wanted = names if self._takes_all else self.columns
        there = [name for name in wanted if name in names and name not in self.exclude]
        if self.raise_if_missing or not there:
            check_columns([*self.columns, *self.exclude], names)
        parts = [self._part(df[name]) for name in there]
        joined = np.concatenate(parts, axis=1)
        if self.dtype is not None:
            joined = joined.astype(self.dtype)
        return df.drop(columns=there).assign(**{self.output_column_name: list(joined)})

    def _part(self, values: pd.Series) -> Any:
        if values.isna().any():
            return floats_of(numbers_of(values))[:, None]
        if values.dtype != object:
            return values.to_numpy()[:, None]
        stacked = np.stack([np.asarray(value) for value in values])
        if stacked.ndim > 2 and not self.flatten:
            raise ValueError(
                f"column {values.name!r} holds arrays of shape {stacked.shape[1:]}; "
                "flatten=True makes vectors of them"
            )
        return stacked.reshape(len(stacked), -1)


class TorchVisionPreprocessor(BuiltinPreprocessor):
    """Apply a transform of torchvision to columns of images.

    Args:
        columns: The columns that it works on.
        transform: What is called with an image, and returns what takes its place.
        output_columns: Names of the results, as many as `columns`; by default the results replace
            the columns.
        batched: Whether `transform` gets all images of a batch at once, as one array.
    """

    _is_fittable = False
    torchvision_transform: Callable[..., Any]
    batched: bool

    def __init__(
        self,
        columns: Sequence[str],
        transform: Callable[[Any], Any],
        output_columns: Sequence[str] | None = None,
        batched: bool = False,
    ) -> None:
        self.columns: Sequence[str] = list(columns)
        self.output_columns: Sequence[str] = outputs_of(self.columns, output_columns)
        self.torchvision_transform = transform
        self.batched = batched

    def _transform_numpy(self, np_data: dict[str, object]) -> dict[str, Any]:
        check_columns(self.columns, list(np_data))
        pairs = zip(self.columns, self.output_columns, strict=True)
        return {**np_data, **{out: self._images(np_data[name]) for name, out in pairs}}

    def _images(self, images: Any) -> Any:
        if self.batched:
            return to_array(self.torchvision_transform(images))
        return [to_array(self.torchvision_transform(image)) for image in images]
