"""What the preprocessors of this package share."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from typing import TYPE_CHECKING

import pyarrow as pa

from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import Block, block_of_batch, check_columns, numpy_of
from skate.data._arrow.compute import pc
from skate.data.preprocessor import Preprocessor

if TYPE_CHECKING:
    import pandas as pd

    from skate._core.arrays import Array
    from skate.data._arrow.blocks import Batch
    from skate.data.dataset import Dataset


class BuiltinPreprocessor(Preprocessor):
    """Gives batches in the form they came in."""

    def _returned(self, result: object, data: Batch) -> Batch:
        if isinstance(data, Mapping):
            return numpy_of(block_of_batch(result))
        return block_of_batch(result) if isinstance(data, pa.Table) else result

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """Take what a pickle holds, one of Ray's as well.

        Parameters may be called `_columns` in it, or be missing: then they have their defaults.
        """
        # Classes of users may do more when one is made, and keep parameters as they like.
        ours = next(each for each in type(self).__mro__ if each.__module__.startswith("skate."))
        parameters = signature(ours).parameters
        known = {_attribute(name, parameters): value for name, value in state.items()}
        if not all(name in known for name in parameters):
            needed = [name for name, each in parameters.items() if each.default is each.empty]
            with suppress(TypeError):  # it cannot be made of these: then they are all there is
                made = ours(**{name: known[name] for name in needed if name in known})
                known = {**vars(made), **known}
        self.__dict__.update(known)


def _attribute(name: str, parameters: Container[str]) -> str:
    return name[1:] if name[1:] in parameters else name


class ColumnPreprocessor(BuiltinPreprocessor):
    """Works on columns one by one: override `_column(name, series)`."""

    def __init__(
        self, columns: Sequence[str], output_columns: Sequence[str] | None = None
    ) -> None:
        self.columns: Sequence[str] = [columns] if isinstance(columns, str) else list(columns)
        if not self.columns:
            raise ValueError(f"{type(self).__name__} needs at least one column")
        self.output_columns: Sequence[str] = outputs_of(self.columns, output_columns)

    def _column(self, name: str, values: pd.Series) -> pd.Series | Array | list[object]:
        """Compute the new values of a column, from a pandas series."""
        raise TypeError(f"{type(self).__name__} must override _column")

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        check_columns(self.columns, list(df.columns))
        new = {
            output: self._column(name, df[name])
            for name, output in zip(self.columns, self.output_columns, strict=True)
        }
        return df.assign(**new)


class CountingPreprocessor(ColumnPreprocessor):
    """Makes vectors of counts: tensors in datasets, lists in frames, which compare as values."""

    def _returned(self, result: Batch, data: Batch) -> Batch:
        if isinstance(data, (Mapping, pa.Table)):
            return super()._returned(result, data)
        lists = {name: result[name].map(_list_of) for name in self.output_columns}
        return result.assign(**lists)


def _list_of(vector: Array | None) -> list[object] | None:
    return None if vector is None else vector.tolist()


def outputs_of(columns: Sequence[str], output_columns: Sequence[str] | None) -> list[str]:
    """Name the results: one per column, and those of the columns if none are given."""
    if output_columns and len(output_columns) != len(columns):
        raise ValueError(
            f"{len(columns)} columns need as many output_columns; got {len(output_columns)}"
        )
    return list(output_columns or columns)


def numbers_of(values: pd.Series) -> pd.Series:
    """Convert a series to numbers; a column without any value has no type of its own."""
    if values.dtype != object:
        return values
    return try_import("pandas", "data").to_numeric(values).astype(float)


def floats_of(values: pd.Series | pd.DataFrame) -> Array:
    """Convert a series or frame to an array of floats, in which what is missing is NaN."""
    floats: Array = values.to_numpy(dtype=float, na_value=float("nan"))
    return floats


def known_values(ds: Dataset, columns: Sequence[str]) -> Dataset:
    """Select these columns of the dataset, to learn from: NaN is a missing value as None is."""
    return ds.select_columns(list(columns))._mapped(_nans_as_nulls, "NaNAsNull")


def _nans_as_nulls(blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        for number, field in enumerate(block.schema):
            if field.type in (pa.float32(), pa.float64()):
                column = block.column(number)
                filled = pc.if_else(pc.is_nan(column), pa.scalar(None, field.type), column)
                block = block.set_column(number, field, filled)
        yield block
