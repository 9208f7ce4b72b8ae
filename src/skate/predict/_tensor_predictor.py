"""Predictors whose models take and give tensors."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from skate.data._execution.batching import check_given
from skate.predict._batches import Arrays, BatchFormat, is_frame, to_numpy, to_pandas
from skate.predict.predictor import Predictor

if TYPE_CHECKING:
    import pandas as pd

    from skate._core.arrays import Array


class TensorPredictor(Predictor):
    """One column becomes one tensor, several become a dictionary of tensors. The model gives a
    tensor, which is the column `predictions`, or a dictionary of tensors."""

    @classmethod
    def preferred_batch_format(cls) -> BatchFormat:
        """Return the form of batches that tensors are made of: dictionaries of arrays."""
        return BatchFormat.NUMPY

    @abstractmethod
    def call_model(self, inputs: object) -> Any:
        """Return the model's output. Override it for models with other inputs or outputs.

        Args:
            inputs: A tensor, or a dictionary of tensors.

        Returns:
            A tensor, a dictionary of tensors, or a DataFrame, which is taken as it is.
        """

    @abstractmethod
    def _arrays_to_tensors(self, numpy_arrays: Arrays, dtype: object) -> Any:
        """Return tensors, of one type or of a type by column."""

    @abstractmethod
    def _tensor_to_array(self, tensor: Any) -> Array:
        """Return what the model gave, as an array."""

    def _predict_numpy(self, data: object, dtype: object = None, **kwargs: Any) -> Arrays:
        if isinstance(data, dict) and len(data) == 1:
            ((name, data),) = data.items()
            if isinstance(dtype, dict):
                check_given(dtype, [name])
                dtype = dtype.get(name)
        output = self.call_model(self._arrays_to_tensors(data, dtype), **kwargs)
        if is_frame(output):
            return output
        if isinstance(output, dict):
            return {name: self._tensor_to_array(tensor) for name, tensor in output.items()}
        return {"predictions": self._tensor_to_array(output)}

    def _predict_pandas(
        self, data: pd.DataFrame, dtype: Any = None, **kwargs: Any
    ) -> pd.DataFrame:
        return to_pandas(self._predict_numpy(to_numpy(data), dtype, **kwargs))

    def _wrong_output(self, output: object, tensors: str) -> ValueError:
        return ValueError(
            f"the model gave a {type(output).__name__}, and predictions are {tensors} or a "
            f"dictionary of them: derive from {type(self).__name__} and let call_model return "
            "one of these, or a pandas.DataFrame as fallthrough"
        )
