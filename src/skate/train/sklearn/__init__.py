"""Training with scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.optional_imports import try_import
from skate._core.public_names import lazy_names

try_import("sklearn", "sklearn")

from skate.train.sklearn.sklearn_checkpoint import SklearnCheckpoint  # noqa: E402
from skate.train.sklearn.sklearn_trainer import SklearnTrainer  # noqa: E402

if TYPE_CHECKING:
    from skate.predict.sklearn import SklearnPredictor
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["SklearnCheckpoint", "SklearnPredictor", "SklearnTrainer"]
