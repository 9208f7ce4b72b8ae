"""Estimators of scikit-learn in checkpoints."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import cloudpickle

from skate.predict.sklearn import SklearnPredictor
from skate.train._model_files import ModelFileCheckpoint

AnySklearnCheckpoint = TypeVar("AnySklearnCheckpoint", bound="SklearnCheckpoint")


class SklearnCheckpoint(ModelFileCheckpoint):
    """A checkpoint with a fitted estimator."""

    MODEL_FILENAME = "model.pkl"

    @classmethod
    def from_estimator(
        cls: type[AnySklearnCheckpoint],
        estimator: Any,
        *,
        path: str | os.PathLike[str] | None = None,
        preprocessor: Any = None,
    ) -> AnySklearnCheckpoint:
        """One that holds this estimator, in the folder `path` or a new temporary one."""

        def write(place: str) -> None:
            with open(place, "wb") as file:
                cloudpickle.dump(estimator, file)

        return cls._written(write, preprocessor, path)

    def get_estimator(self) -> Any:
        """The estimator."""
        return SklearnPredictor.from_checkpoint(self).model

    get_model = get_estimator
