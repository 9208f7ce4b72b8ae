"""What a predictor is: a model that was loaded from a checkpoint and answers batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from skate._run.checkpoint import Checkpoint
from skate.predict._batches import TENSOR_COLUMN, Batch, BatchFormat, format_of, to_format

if TYPE_CHECKING:
    import pandas as pd

    from skate.data.preprocessor import Preprocessor


class PredictorNotSerializableException(RuntimeError):  # noqa: N818  # the name in Ray
    """Predictors stay where they are; checkpoints travel."""


class Predictor(ABC):
    """Predict for batches with a model: the base of all predictors.

    Derived classes override `from_checkpoint`, and `_predict_pandas`, `_predict_numpy` or both.
    `predict` gives batches through the preprocessor first, converts them to what the class is
    written for, and the predictions to the form that the batch came in.

    Args:
        preprocessor: What batches are transformed by first; None for nothing.
    """

    _preprocessor: Any = None

    def __init__(self, preprocessor: object = None) -> None:
        self._preprocessor = preprocessor

    @classmethod
    @abstractmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Predictor:
        """Make the predictor for the model in a checkpoint.

        Args:
            checkpoint: The checkpoint.
            **kwargs: What the class needs besides, such as the model without its weights.
        """

    @classmethod
    def from_pandas_udf(cls, pandas_udf: Callable[..., Any]) -> Predictor:
        """Make a predictor of a function, without a model.

        Args:
            pandas_udf: Takes a DataFrame, and returns one.

        Example:
            >>> import pandas as pd
            >>> from skate.predict import Predictor
            >>> predictor = Predictor.from_pandas_udf(lambda frame: frame + 1)
            >>> predictor.predict(pd.DataFrame({"x": [1, 2]}))["x"].tolist()
            [2, 3]
        """
        return FunctionPredictor(pandas_udf)

    def get_preprocessor(self) -> Any:
        """Return what batches are transformed by first; None for nothing."""
        return self._preprocessor

    def set_preprocessor(self, preprocessor: Preprocessor | None) -> None:
        """Set what batches are transformed by first.

        Args:
            preprocessor: The preprocessor, fitted; None for none.
        """
        self._preprocessor = preprocessor

    # -- formats ---------------------------------------------------------------------------------

    @classmethod
    def preferred_batch_format(cls) -> BatchFormat:
        """Return which form of batches to use where a class is written for both."""
        return BatchFormat.PANDAS

    @classmethod
    def _batch_format_to_use(cls) -> BatchFormat:
        written_for = _formats_of(cls)
        return cls.preferred_batch_format() if len(written_for) > 1 else written_for[0]

    # -- predicting ------------------------------------------------------------------------------

    def predict(self, data: Batch, **kwargs: Any) -> Batch:
        """Predict for a batch.

        Args:
            data: The batch: an array, a dictionary of arrays, a DataFrame or a pyarrow Table.
            **kwargs: For `_predict_pandas` or `_predict_numpy`.

        Returns:
            The predictions: of an array or a dictionary of arrays a dictionary of arrays, of a
            DataFrame a DataFrame and of a Table a Table.
        """
        came_as = format_of(data)
        if self._preprocessor is not None:
            data = preprocess(self._preprocessor, data)
        written_for = _formats_of(type(self))
        wanted = came_as if came_as in written_for else written_for[-1]
        batch = to_format(data, wanted)
        if wanted is BatchFormat.NUMPY:
            predictions = self._predict_numpy(batch, **kwargs)
        else:
            predictions = self._predict_pandas(batch, **kwargs)
        return to_format(predictions, came_as)

    def _predict_pandas(self, data: pd.DataFrame, **kwargs: Any) -> pd.DataFrame:
        """Return predictions for a DataFrame, as a DataFrame."""
        raise _not_written(type(self))

    def _predict_numpy(self, data: Any, **kwargs: Any) -> Any:
        """Return predictions for an array or a dictionary of arrays, likewise."""
        raise _not_written(type(self))

    def __reduce__(self) -> NoReturn:
        raise PredictorNotSerializableException(
            f"a {type(self).__name__} cannot be sent to another process: send the checkpoint, and "
            f"make the predictor there with {type(self).__name__}.from_checkpoint"
        )


class FunctionPredictor(Predictor):
    """A function of DataFrames as a predictor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, *, allow_pickle: bool = False, **kwargs: Any
    ) -> FunctionPredictor:
        return cls(checkpoint.to_dict(allow_pickle=allow_pickle)["function"])

    def _predict_pandas(self, data: pd.DataFrame, **kwargs: Any) -> pd.DataFrame:
        return self.function(data, **kwargs)


def preprocess(preprocessor: Preprocessor, data: Batch) -> Batch:
    """Give a batch through a preprocessor. An array without names goes by the name `__value__`."""
    from skate.data.preprocessor import Preprocessor

    takes_names_only = getattr(type(preprocessor), "transform_batch", None) is (
        Preprocessor.transform_batch
    )
    if isinstance(data, dict) or not hasattr(data, "dtype") or not takes_names_only:
        return preprocessor.transform_batch(data)
    columns = preprocessor.transform_batch({TENSOR_COLUMN: data})
    return columns[TENSOR_COLUMN] if list(columns) == [TENSOR_COLUMN] else columns


def _formats_of(cls: type[Predictor]) -> list[BatchFormat]:
    """Return the forms that a class is written for; arrays last: others become these."""
    found = []
    if cls._predict_pandas is not Predictor._predict_pandas:
        found.append(BatchFormat.PANDAS)
    if cls._predict_numpy is not Predictor._predict_numpy:
        found.append(BatchFormat.NUMPY)
    if not found:
        raise _not_written(cls)
    return found


def _not_written(cls: type[Predictor]) -> NotImplementedError:
    return NotImplementedError(
        f"{cls.__name__} must override at least one of _predict_pandas and _predict_numpy"
    )
