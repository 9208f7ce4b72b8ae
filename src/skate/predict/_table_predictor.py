"""Predictors whose models take tables of numbers."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.optional_imports import try_import
from skate._run.checkpoint import Checkpoint
from skate._run.pickles import allowing
from skate.predict._batches import TENSOR_COLUMN, Batch, select
from skate.predict.predictor import Predictor

if TYPE_CHECKING:
    import pandas as pd

    from skate.predict._batches import Arrays


class TablePredictor(Predictor):
    """The model answers the columns `feature_columns` (names, or numbers in an array), by default
    all; its answers are the column `predictions`, or `predictions_0`, `predictions_1`, …"""

    def __init__(self, model: Any, preprocessor: object = None) -> None:
        super().__init__(preprocessor)
        self.model = model

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(model={type(self.model).__name__}, preprocessor={self._preprocessor!r})"

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, *, allow_pickle: bool = False, **kwargs: Any
    ) -> TablePredictor:
        """Make the predictor for the model in a checkpoint.

        Args:
            checkpoint: Holds the model, and maybe a preprocessor.
            allow_pickle: Whether to read pickles that were not written by this user on this
                machine, which runs whatever code they contain.
            kwargs: For the constructor.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        with allowing(allow_pickle or checkpoint._allow_pickle):
            return cls(cls._load(checkpoint), preprocessor=checkpoint.get_preprocessor(), **kwargs)

    @classmethod
    @abstractmethod
    def _load(cls, checkpoint: Checkpoint) -> Any:
        """Return the model in a checkpoint."""

    @abstractmethod
    def _answers(self, table: pd.DataFrame, **kwargs: Any) -> Arrays:
        """Return what the model says to a DataFrame, or to an array of rows."""

    def predict(
        self, data: Batch, feature_columns: list[Any] | None = None, **kwargs: Any
    ) -> Batch:
        """Predict for a batch.

        Args:
            data: The batch: an array, a dictionary of arrays, a DataFrame or a pyarrow Table.
            feature_columns: The columns that the model sees, by name, or by number for an array;
                None is all.
            **kwargs: What the model's own method of prediction takes.

        Returns:
            The predictions, in the form that the batch came in.
        """
        return super().predict(data, feature_columns=feature_columns, **kwargs)

    def _predict_pandas(
        self, data: pd.DataFrame, feature_columns: list[Any] | None = None, **kwargs: Any
    ) -> pd.DataFrame:
        pandas = try_import("pandas", "data")
        if list(data.columns) == [TENSOR_COLUMN]:
            table = np.stack(list(data[TENSOR_COLUMN]))
            table = table if feature_columns is None else table[:, feature_columns]
        else:
            table = data if feature_columns is None else select(data, feature_columns)
        frame = pandas.DataFrame(np.asarray(self._answers(table, **kwargs)))
        several = frame.shape[1] > 1
        frame.columns = [f"predictions_{n}" if several else "predictions" for n in frame.columns]
        return frame
