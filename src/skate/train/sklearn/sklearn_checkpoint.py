"""Estimators of scikit-learn in checkpoints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from skate._run.pickles import signed_pickle
from skate.predict.sklearn import SklearnPredictor
from skate.train._model_files import ModelFileCheckpoint

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from skate.data.preprocessor import Preprocessor


AnySklearnCheckpoint = TypeVar("AnySklearnCheckpoint", bound="SklearnCheckpoint")


class SklearnCheckpoint(ModelFileCheckpoint):
    """A checkpoint with a fitted estimator."""

    MODEL_FILENAME: str = "model.pkl"

    @classmethod
    def from_estimator(
        cls: type[AnySklearnCheckpoint],
        estimator: BaseEstimator,
        *,
        path: str | os.PathLike[str] | None = None,
        preprocessor: Preprocessor | None = None,
    ) -> AnySklearnCheckpoint:
        """Make a checkpoint that holds an estimator.

        Args:
            estimator: The fitted estimator.
            path: The folder to write it to; by default a new temporary one.
            preprocessor: What batches go through before the estimator sees them.
        """

        def write(place: str) -> None:
            Path(place).write_bytes(signed_pickle(estimator))

        return cls._written(write, preprocessor, path)

    def get_estimator(self, *, allow_pickle: bool = False) -> BaseEstimator:
        """Return the estimator.

        Args:
            allow_pickle: Whether to read one that was not written by this user on this machine,
                which runs whatever code it contains.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        return SklearnPredictor.from_checkpoint(self, allow_pickle=allow_pickle).model

    get_model = get_estimator
