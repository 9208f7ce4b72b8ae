"""Predictions by XGBoost models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._run.checkpoint import Checkpoint
from skate.predict._models import model_in
from skate.predict._table_predictor import TablePredictor

if TYPE_CHECKING:
    import pandas as pd

    from skate.predict._batches import Arrays


FILES = ("model.ubj", "model.json", "model")


class XGBoostPredictor(TablePredictor):
    """Predict with a Booster of XGBoost.

    Args:
        model: The Booster.
        preprocessor: What batches are transformed by first; None for nothing.
    """

    @classmethod
    def _load(cls, checkpoint: Checkpoint) -> Any:
        return model_in(checkpoint, FILES, _read)

    def _answers(
        self, table: pd.DataFrame, dmatrix_kwargs: dict[str, Any] | None = None, **kwargs: Any
    ) -> Arrays:
        """Predict, with `dmatrix_kwargs` for the DMatrix that is made of the batch."""
        xgboost = try_import("xgboost", "xgboost")
        names = list(getattr(table, "columns", ()))
        if names and not all(isinstance(name, str) for name in names):
            table = table.to_numpy()  # numbers are positions, not names
        return self.model.predict(xgboost.DMatrix(table, **(dmatrix_kwargs or {})), **kwargs)


def _read(path: str) -> Any:
    booster = try_import("xgboost", "xgboost").Booster()
    booster.load_model(path)
    return booster
