"""Predictions by scikit-learn estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._run.checkpoint import Checkpoint
from skate._run.own_files import SKLEARN_FILES
from skate.predict._models import model_in, unpickled
from skate.predict._table_predictor import TablePredictor

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import BaseEstimator

    from skate.data.preprocessor import Preprocessor
    from skate.predict._batches import Arrays


_THREADS = ("n_jobs", "thread_count")


class SklearnPredictor(TablePredictor):
    """Predict with a fitted estimator of scikit-learn.

    Args:
        estimator: The estimator.
        preprocessor: What batches are transformed by first; None for nothing.

    Example:
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> from skate.predict import SklearnPredictor
        >>> model = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
        >>> SklearnPredictor(model).predict(np.array([[2.0]]))["predictions"].round(3)
        array([5.])
    """

    def __init__(self, estimator: BaseEstimator, preprocessor: Preprocessor | None = None) -> None:
        super().__init__(estimator, preprocessor)

    @property
    def estimator(self) -> BaseEstimator:
        return self.model

    @classmethod
    def _load(cls, checkpoint: Checkpoint) -> BaseEstimator:
        return model_in(checkpoint, SKLEARN_FILES, unpickled)

    def _answers(
        self, table: pd.DataFrame, num_estimator_cpus: int | None = 1, **kwargs: Any
    ) -> Arrays:
        """Predict, with `num_estimator_cpus` CPUs for the estimator and those inside of it."""
        if num_estimator_cpus:
            set_threads(self.model, num_estimator_cpus)
        return self.model.predict(table, **kwargs)


def thread_parameters(estimator: BaseEstimator) -> list[str]:
    """Return the parameters by which it, and those inside it, know how many threads to use."""
    names = estimator.get_params(deep=True)
    return [name for name in names if name.rpartition("__")[2] in _THREADS]


def set_threads(estimator: BaseEstimator, count: int) -> None:
    """Let it, and those inside, use this many threads."""
    wanted = dict.fromkeys(thread_parameters(estimator), count)
    if wanted:
        estimator.set_params(**wanted)
