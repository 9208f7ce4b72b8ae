"""Predictions by LightGBM models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._run.checkpoint import Checkpoint
from skate.predict._models import model_in
from skate.predict._table_predictor import TablePredictor

if TYPE_CHECKING:
    import pandas as pd

    from skate.predict._batches import Arrays


FILES = ("model.txt", "model")


class LightGBMPredictor(TablePredictor):
    """Predict with a Booster of LightGBM.

    Args:
        model: The Booster.
        preprocessor: What batches are transformed by first; None for nothing.
    """

    @classmethod
    def _load(cls, checkpoint: Checkpoint) -> Any:
        return model_in(checkpoint, FILES, _read)

    def _answers(self, table: pd.DataFrame, **kwargs: Any) -> Arrays:
        return self.model.predict(table, **kwargs)


def _read(path: str) -> Any:
    return try_import("lightgbm", "lightgbm").Booster(model_file=path)
