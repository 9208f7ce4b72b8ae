"""What a preprocessor is: it learns from a dataset, and then transforms datasets and batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import cloudpickle
import pyarrow as pa
import pyarrow.compute as pc

from skate.data._blocks import (
    Block,
    batch_of,
    block_of_batch,
    check_columns,
    numpy_of,
)

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class PreprocessorNotFittedError(RuntimeError):
    """The preprocessor needs `fit` first."""


PreprocessorNotFittedException = PreprocessorNotFittedError  # as Ray calls it


class FitStatus(str, Enum):
    """Whether a preprocessor has learned what it needs."""

    NOT_FITTABLE = "NOT_FITTABLE"
    NOT_FITTED = "NOT_FITTED"
    PARTIALLY_FITTED = "PARTIALLY_FITTED"
    FITTED = "FITTED"


class SerializationFormat(str, Enum):
    """How `serialize` writes; there is one way."""

    CLOUDPICKLE = "cloudpickle"


_Status = FitStatus  # inside the class, that name is an attribute, as in Ray


class Preprocessor(ABC):
    """Derived classes override `_transform_pandas` (or `_transform_numpy`) and, if they learn
    something, `_fit`, which fills `self.stats_`."""

    FitStatus = FitStatus
    SerializationFormat = SerializationFormat
    MAGIC_CLOUDPICKLE = b"CPKL:"
    SERIALIZER_FORMAT_VERSION = 1
    columns: Sequence[str] = ()
    output_columns: Sequence[str] = ()
    batch_format = "pandas"

    stats_: dict[str, Any]
    _class_id: str | None = None
    _version: int = 1

    @property
    def _learns(self) -> bool:
        return type(self)._fit is not Preprocessor._fit

    def _fit(self, ds: Dataset) -> dict[str, Any]:
        """What is learned from the dataset."""
        return {}

    @abstractmethod
    def _transform(self, batch: Any) -> Any:
        """A batch in `batch_format`, transformed."""

    # -- fitting --------------------------------------------------------------------------------

    def fit_status(self) -> _Status:
        if not self._learns:
            return _Status.NOT_FITTABLE
        return _Status.FITTED if hasattr(self, "stats_") else _Status.NOT_FITTED

    def has_stats(self) -> bool:
        return hasattr(self, "stats_")

    def fit(self, ds: Dataset) -> Preprocessor:
        """Learn from a dataset; returns itself."""
        if self._learns:
            names = ds.columns() or []
            check_columns(self.columns, names)
            self.stats_ = self._fit(ds)
        return self

    def fit_transform(
        self,
        ds: Dataset,
        *,
        transform_num_cpus: float | None = None,
        transform_memory: float | None = None,
        transform_batch_size: int | None = None,
        transform_concurrency: int | None = None,
    ) -> Dataset:
        """Learn from a dataset, and transform it."""
        return self.fit(ds).transform(
            ds,
            batch_size=transform_batch_size,
            num_cpus=transform_num_cpus,
            memory=transform_memory,
            concurrency=transform_concurrency,
        )

    # -- transforming ---------------------------------------------------------------------------

    def transform(
        self,
        ds: Dataset,
        *,
        batch_size: int | None = None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        """The dataset, transformed when it is read."""
        self._check_fitted()
        return ds.map_batches(
            Transformation(self),
            batch_format=self.batch_format,
            batch_size=batch_size,
            zero_copy_batch=False,
            num_cpus=num_cpus,
            memory=memory,
            concurrency=concurrency,
        )

    def transform_batch(self, data: Any) -> Any:
        """A batch (pandas frame, dictionary of arrays, Arrow table) in the form it came in."""
        self._check_fitted()
        block = block_of_batch(data)
        result = block_of_batch(self._transform(batch_of(block, self.batch_format)))
        if isinstance(data, dict):
            return numpy_of(result)
        kind = "pandas" if type(data).__module__.startswith("pandas") else "pyarrow"
        return batch_of(result, kind)

    def _check_fitted(self) -> None:
        if self.fit_status() in (_Status.NOT_FITTED, _Status.PARTIALLY_FITTED):
            raise PreprocessorNotFittedError(
                f"{type(self).__name__} has not learned from a dataset yet: call fit first"
            )

    def get_input_columns(self) -> list[str]:
        return list(self.columns)

    def get_output_columns(self) -> list[str]:
        return list(self.output_columns or self.columns)

    def preferred_batch_format(self) -> str:
        return self.batch_format

    # -- travelling -----------------------------------------------------------------------------

    @classmethod
    def get_preprocessor_class_id(cls) -> str:
        """The name of the class in what `serialize` writes."""
        return cls.__dict__.get("_class_id") or cls.__name__

    @classmethod
    def set_preprocessor_class_id(cls, identifier: str) -> None:
        cls._class_id = identifier

    @classmethod
    def get_version(cls) -> int:
        """The version of the class in what `serialize` writes."""
        return cls._version

    @classmethod
    def set_version(cls, version: int) -> None:
        cls._version = version

    def serialize(self) -> bytes:
        """As bytes, for a checkpoint."""
        content = {
            "format": self.SERIALIZER_FORMAT_VERSION,
            "class": self.get_preprocessor_class_id(),
            "version": self.get_version(),
            "preprocessor": self,
        }
        return self.MAGIC_CLOUDPICKLE + cloudpickle.dumps(content)  # type: ignore[no-any-return]

    @staticmethod
    def deserialize(serialized: bytes) -> Preprocessor:
        """What `serialize` was called on."""
        magic = Preprocessor.MAGIC_CLOUDPICKLE
        if not serialized.startswith(magic):
            raise ValueError(
                f"expected what Preprocessor.serialize gave; got {bytes(serialized[:20])!r}"
            )
        content = cloudpickle.loads(serialized[len(magic) :])
        if content["format"] > Preprocessor.SERIALIZER_FORMAT_VERSION:
            raise ValueError(
                f"the {content['class']} was written by a newer skate (format "
                f"{content['format']}); this one reads {Preprocessor.SERIALIZER_FORMAT_VERSION}"
            )
        found = content["preprocessor"]
        assert isinstance(found, Preprocessor)
        return found

    def __repr__(self) -> str:
        shown = {
            name: value
            for name, value in vars(self).items()
            if not name.startswith("_") and name != "stats_"
        }
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


class Transformation:
    """A preprocessor as a function of batches."""

    def __init__(self, preprocessor: Preprocessor) -> None:
        self.preprocessor = preprocessor
        self.__name__ = type(preprocessor).__name__

    def __call__(self, batch: Any) -> Any:
        return self.preprocessor._transform(batch)


def known_values(ds: Dataset, columns: Sequence[str]) -> Dataset:
    """These columns of the dataset, to learn from: NaN is a missing value as None is."""
    return ds.select_columns(list(columns))._mapped(_nans_as_nulls, "NaNAsNull")


def _nans_as_nulls(blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        for number, field in enumerate(block.schema):
            if field.type in (pa.float32(), pa.float64()):
                column = block.column(number)
                filled = pc.if_else(pc.is_nan(column), pa.scalar(None, field.type), column)
                block = block.set_column(number, field, filled)
        yield block


class ColumnPreprocessor(Preprocessor):
    """Works on columns one by one: override `_column(name, series)`."""

    def __init__(
        self, columns: Sequence[str], output_columns: Sequence[str] | None = None
    ) -> None:
        self.columns = [columns] if isinstance(columns, str) else list(columns)
        if not self.columns:
            raise ValueError(f"{type(self).__name__} needs at least one column")
        self.output_columns = list(output_columns) if output_columns else list(self.columns)
        if len(self.output_columns) != len(self.columns):
            raise ValueError(
                f"{len(self.columns)} columns need as many output_columns; "
                f"got {len(self.output_columns)}"
            )

    def _column(self, name: str, values: Any) -> Any:
        """The new values of a column, from a pandas series."""
        raise TypeError(f"{type(self).__name__} must override _column")

    def _transform(self, batch: Any) -> Any:
        check_columns(self.columns, list(batch.columns))
        new = {
            output: self._column(name, batch[name])
            for name, output in zip(self.columns, self.output_columns, strict=True)
        }
        return batch.assign(**new)


__all__ = [
    "FitStatus",
    "Preprocessor",
    "PreprocessorNotFittedError",
    "PreprocessorNotFittedException",
]
