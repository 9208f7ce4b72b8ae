"""What a preprocessor is: it learns from a dataset, and then transforms datasets and batches."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import batch_of, block_of_batch, check_columns, check_format

if TYPE_CHECKING:
    import pandas as pd

    from skate.data._arrow.blocks import Batch
    from skate.data.dataset import Dataset
    from skate.data.preprocessors.statistics import StatComputationPlan


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


class Preprocessor:
    """Learn from a dataset, and transform others and batches: the base of all preprocessors.

    Derived classes override `_transform_pandas`, `_transform_numpy` or `_transform_arrow`, each a
    function from batch to batch. Of several, `preferred_batch_format` chooses. What they learn
    from a dataset `_fit` puts into `self.stats_`; those that learn nothing have `_is_fittable =
    False`.

    Example:
        >>> from skate.data.preprocessors import StandardScaler
        >>> ds = skate.data.from_items([{"x": 1.0}, {"x": 3.0}])
        >>> StandardScaler(columns=["x"]).fit_transform(ds).take_all()
        [{'x': -1.0}, {'x': 1.0}]
    """

    FitStatus = FitStatus
    SerializationFormat = SerializationFormat
    MAGIC_CLOUDPICKLE = b"CPKL:"
    SERIALIZER_FORMAT_VERSION = 1
    columns: Sequence[str] = ()
    output_columns: Sequence[str] = ()

    stats_: dict[str, Any]
    _is_fittable: bool = True
    _fitted: bool = False
    _plan: StatComputationPlan | None = None
    _class_id: str | None = None
    _version: int = 1

    def _fit(self, ds: Dataset) -> Any:
        """Learn from the dataset: set `self.stats_`, or return what belongs there."""
        raise NotImplementedError(
            f"{type(self).__name__} must override _fit, or set _is_fittable = False"
        )

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        raise self._not_written("_transform_pandas")

    def _transform_numpy(self, np_data: Batch) -> Batch:
        raise self._not_written("_transform_numpy")

    def _transform_arrow(self, table: pa.Table) -> Batch:
        raise self._not_written("_transform_arrow")

    def _not_written(self, method: str) -> NotImplementedError:
        written = (
            ", ".join(f"_transform_{name}" for name in self._written()) or "none of the three"
        )
        return NotImplementedError(
            f"{type(self).__name__} has no {method}; it has {written}. Override {method}, or give "
            "it batches of a format that it has"
        )

    @classmethod
    def _written(cls) -> list[str]:
        """List the formats of batches that there is a function for."""
        return [
            name
            for name in ("pandas", "numpy", "arrow")
            if getattr(cls, f"_transform_{name}")
            is not getattr(Preprocessor, f"_transform_{name}")
        ]

    # -- fitting --------------------------------------------------------------------------------

    def fit_status(self) -> _Status:
        """Return whether it has learned what it needs."""
        if not self._is_fittable:
            return _Status.NOT_FITTABLE
        learned = self._fitted or any(v for k, v in vars(self).items() if k.endswith("_"))
        return _Status.FITTED if learned else _Status.NOT_FITTED

    @property
    def stat_computation_plan(self) -> StatComputationPlan:
        """What `_fit` wants to know of the dataset: `fit` puts it into `stats_`."""
        if self._plan is None:
            from skate.data.preprocessors.statistics import StatComputationPlan

            self._plan = StatComputationPlan()
        return self._plan

    @property
    def _stat_computation_plan(self) -> StatComputationPlan:
        return self.stat_computation_plan

    def __getstate__(self) -> dict[str, Any]:
        # Its functions may refer to datasets, and are of use in `fit` only.
        return {name: value for name, value in vars(self).items() if name != "_plan"}

    def has_stats(self) -> bool:
        """Return whether it has learned something."""
        return bool(getattr(self, "stats_", None))

    def fit(self, ds: Dataset) -> Preprocessor:
        """Learn from a dataset.

        Args:
            ds: The dataset.

        Returns:
            Itself.
        """
        if self.fit_status() in (_Status.FITTED, _Status.PARTIALLY_FITTED):
            warnings.warn(
                f"`fit` has already been called on this {type(self).__name__}: what it learned "
                "then is overwritten",
                stacklevel=2,
            )
        if self._is_fittable:
            check_columns(self.columns, ds.columns() or [])
            self.stat_computation_plan.reset()
            learned = self._fit(ds)
            if isinstance(learned, dict):
                self.stats_ = learned
            if self.stat_computation_plan:
                computed = self.stat_computation_plan.compute(ds)
                self.stats_ = {**getattr(self, "stats_", {}), **computed}
            self._fitted = True
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
        """Learn from a dataset, and transform it.

        Args:
            ds: The dataset.
            transform_num_cpus: CPUs of each task; None is what `map_batches` takes.
            transform_memory: Bytes of memory of each task; None for no limit.
            transform_batch_size: Rows of a batch; None chooses.
            transform_concurrency: How many tasks at a time; None chooses.
        """
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
        """Transform a dataset, when it is read.

        Args:
            ds: The dataset.
            batch_size: Rows of a batch; None chooses.
            num_cpus: CPUs of each task; None is what `map_batches` takes.
            memory: Bytes of memory of each task; None for no limit.
            concurrency: How many tasks at a time; None chooses.

        Raises:
            PreprocessorNotFittedError: If it has not learned what it needs.
        """
        self._check_fitted()
        given = {
            "batch_size": batch_size,
            "num_cpus": num_cpus,
            "memory": memory,
            "concurrency": concurrency,
        }
        options = {
            "batch_size": None,
            **self._get_transform_config(),
            **{name: value for name, value in given.items() if value is not None},
        }
        return ds.map_batches(
            Transformation(self),
            batch_format=self._format(),
            zero_copy_batch=False,
            **options,
        )

    def transform_batch(self, data: Batch) -> Batch:
        """Transform a batch.

        Args:
            data: A pandas frame, a dictionary of arrays, an array or an Arrow table.

        Raises:
            PreprocessorNotFittedError: If it has not learned what it needs.
            ValueError: If it is none of these.
        """
        self._check_fitted()
        if not isinstance(data, (Mapping, np.ndarray, pa.Table)) and not _is_frame(data):
            raise ValueError(
                "transform_batch takes a pandas DataFrame, a dictionary of arrays, an array or a "
                f"pyarrow Table; got {type(data).__name__}"
            )
        return self._returned(self._transform(self._prepared(data)), data)

    def _returned(self, result: Batch, data: Batch) -> Batch:
        """Return what `transform_batch` gives back for `data`."""
        return result

    def _prepared(self, data: Batch) -> Batch:
        """Convert the batch to the format of the transformation."""
        wanted = self._format()
        if wanted == "numpy" and isinstance(data, np.ndarray):
            return data
        if wanted == "pandas" and _is_frame(data):
            return data
        return batch_of(block_of_batch(data), wanted)

    def _transform(self, batch: Batch) -> Batch:
        functions = {
            "pandas": self._transform_pandas,
            "numpy": self._transform_numpy,
            "pyarrow": self._transform_arrow,
        }
        return functions[self._format()](batch)

    def _format(self) -> str:
        chosen = self._determine_transform_to_use()
        name = str(getattr(chosen, "value", chosen))
        return check_format("pyarrow" if name == "arrow" else name)

    def _determine_transform_to_use(self) -> str:
        """Choose the format that there is a function for; of several, the preferred one."""
        written = self._written()
        if not written:
            raise NotImplementedError(
                f"{type(self).__name__} must override one of _transform_pandas, _transform_numpy "
                "and _transform_arrow"
            )
        return written[0] if len(written) == 1 else self.preferred_batch_format()

    def _get_transform_config(self) -> dict[str, Any]:
        """Return arguments for `map_batches`."""
        return {}

    def _check_fitted(self) -> None:
        if self.fit_status() in (_Status.NOT_FITTED, _Status.PARTIALLY_FITTED):
            raise PreprocessorNotFittedError(
                f"{type(self).__name__} has not learned from a dataset yet: call fit first"
            )

    def get_input_columns(self) -> list[str]:
        """Return the columns that it reads."""
        return list(self.columns)

    def get_output_columns(self) -> list[str]:
        """Return the columns that it writes."""
        return list(self.output_columns or self.columns)

    @classmethod
    def preferred_batch_format(cls) -> Any:
        """Return the form of batches that it is given, of those that it has a method for."""
        return "pandas"

    # -- travelling -----------------------------------------------------------------------------

    @classmethod
    def get_preprocessor_class_id(cls) -> str:
        """Return the name of the class in what `serialize` writes."""
        return cls.__dict__.get("_class_id") or cls.__name__

    @classmethod
    def set_preprocessor_class_id(cls, identifier: str) -> None:
        """Set the name of the class in what `serialize` writes.

        Args:
            identifier: The name.
        """
        cls._class_id = identifier

    @classmethod
    def get_version(cls) -> int:
        """Return the version of the class in what `serialize` writes."""
        return cls._version

    @classmethod
    def set_version(cls, version: int) -> None:
        """Set the version of the class in what `serialize` writes.

        Args:
            version: The version.
        """
        cls._version = version

    def serialize(self) -> bytes:
        """Return the preprocessor as bytes, for a checkpoint."""
        content = {
            "format": self.SERIALIZER_FORMAT_VERSION,
            "class": self.get_preprocessor_class_id(),
            "version": self.get_version(),
            "preprocessor": self,
        }
        return self.MAGIC_CLOUDPICKLE + cloudpickle.dumps(content)  # type: ignore[no-any-return]

    @staticmethod
    def deserialize(serialized: bytes) -> Preprocessor:
        """Return the preprocessor that `serialize` was called on.

        Args:
            serialized: The bytes; a pickle, so only from where you trust.

        Raises:
            ValueError: If it is not what `serialize` gives.
        """
        magic = Preprocessor.MAGIC_CLOUDPICKLE
        if serialized[: len(magic)] != magic:  # text is unequal too
            raise ValueError(f"expected what Preprocessor.serialize gave; got {serialized[:20]!r}")
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
        known = vars(self)
        made_of = [name for name in inspect.signature(type(self)).parameters if name in known]
        others = (name for name in known if not name.startswith("_") and not name.endswith("_"))
        texts = (f"{name}={_shown(known[name])}" for name in made_of or others)
        return f"{type(self).__name__}({', '.join(texts)})"


SerializablePreprocessorBase = Preprocessor  # in Ray, one of its own


def _shown(value: object) -> str:
    """Write a function by its name: where it is in memory says nothing."""
    return str(getattr(value, "__name__", None) or repr(value))


class Transformation:
    """A preprocessor as a function of batches."""

    def __init__(self, preprocessor: Preprocessor) -> None:
        self.preprocessor = preprocessor
        self.__name__: str = type(preprocessor).__name__
        self.operator_name = self.__name__  # in plans and statistics, as in Ray

    def __call__(self, batch: Batch) -> Batch:
        return self.preprocessor._transform(batch)


def _is_frame(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


__all__ = [
    "FitStatus",
    "Preprocessor",
    "PreprocessorNotFittedError",
    "PreprocessorNotFittedException",
    "SerializablePreprocessorBase",
]
