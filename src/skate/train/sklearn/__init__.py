"""Training with scikit-learn."""

from __future__ import annotations

from typing import Any

from skate._core.optional_imports import try_import

try_import("sklearn", "sklearn")

from skate.train.sklearn.sklearn_checkpoint import SklearnCheckpoint  # noqa: E402
from skate.train.sklearn.sklearn_trainer import SklearnTrainer  # noqa: E402

__all__ = ["SklearnCheckpoint", "SklearnPredictor", "SklearnTrainer"]


def __getattr__(name: str) -> Any:
    if name == "SklearnPredictor":
        from skate.predict import SklearnPredictor

        return SklearnPredictor
    raise AttributeError(f"module 'skate.train.sklearn' has no attribute {name!r}")
