"""Several preprocessors in a row, and a function as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.data._arrow.blocks import check_format
from skate.data.preprocessor import FitStatus, Preprocessor
from skate.data.preprocessors.base import BuiltinPreprocessor

if TYPE_CHECKING:
    from skate.data._arrow.blocks import Batch
    from skate.data.dataset import Dataset


class Chain(BuiltinPreprocessor):
    """One after the other: each learns from what those before it made of the dataset."""

    preprocessors: tuple[Preprocessor, ...]

    def __init__(self, *preprocessors: Preprocessor) -> None:
        self.preprocessors = preprocessors

    @property
    def _preprocessors(self) -> tuple[Preprocessor, ...]:
        """As newer versions of Ray call them."""
        return self.preprocessors

    def fit_status(self) -> FitStatus:
        found = {preprocessor.fit_status() for preprocessor in self.preprocessors}
        if {FitStatus.NOT_FITTED, FitStatus.FITTED} <= found:
            return FitStatus.PARTIALLY_FITTED
        if FitStatus.NOT_FITTED in found:
            return FitStatus.NOT_FITTED
        return FitStatus.FITTED if FitStatus.FITTED in found else FitStatus.NOT_FITTABLE

    def fit(self, ds: Dataset) -> Preprocessor:
        for preprocessor in self.preprocessors:
            ds = preprocessor.fit_transform(ds)
        return self

    def _transform(self, batch: object) -> Batch:
        for preprocessor in self.preprocessors:
            batch = preprocessor._transform(preprocessor._prepared(batch))
        return batch

    def _determine_transform_to_use(self) -> str:
        return self.preprocessors[0]._determine_transform_to_use()

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.preprocessors))})"

    def get_input_columns(self) -> list[str]:
        made: set[str] = set()
        wanted: list[str] = []
        for preprocessor in self.preprocessors:
            wanted += [c for c in preprocessor.get_input_columns() if c not in {*made, *wanted}]
            made.update(preprocessor.get_output_columns())
        return wanted

    def get_output_columns(self) -> list[str]:
        names = (c for p in self.preprocessors for c in p.get_output_columns())
        return list(dict.fromkeys(names))


class BatchMapper(BuiltinPreprocessor):
    """Make a preprocessor of a function of batches.

    Args:
        fn: Gets a batch, and returns what takes its place.
        batch_format: How it gets batches: "pandas", "numpy" or "pyarrow".
        batch_size: How many rows a batch has at most; None leaves that to the dataset.
    """

    _is_fittable = False

    def __init__(
        self,
        fn: Callable[[object], object],
        batch_format: str | None = "pandas",
        batch_size: int | None = None,
    ) -> None:
        self.fn = fn
        self.batch_format: str = check_format(batch_format)
        self.batch_size = batch_size

    def _determine_transform_to_use(self) -> str:
        return self.batch_format

    def _get_transform_config(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size}

    def _transform(self, batch: object) -> Batch:
        return self.fn(batch)
