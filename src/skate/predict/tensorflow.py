"""Predictions by Keras models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.optional_imports import try_import
from skate._run.checkpoint import Checkpoint
from skate.predict._batches import Arrays, Batch
from skate.predict._tensor_predictor import TensorPredictor

if TYPE_CHECKING:
    import keras
    import tensorflow

    from skate._core.arrays import Array
    from skate.data.preprocessor import Preprocessor


class TensorflowPredictor(TensorPredictor):
    """Predict with a Keras model.

    Args:
        model: The model; or None, with `model_definition`.
        preprocessor: What batches are transformed by first; None for nothing.
        use_gpu: Whether the model runs on a GPU.
        model_definition: Builds the model, where it is used.
        model_weights: What that model gets as its weights, if anything.
    """

    def __init__(
        self,
        model: Any = None,
        preprocessor: Preprocessor | None = None,
        use_gpu: bool = False,
        *,
        model_definition: Callable[[], Any] | None = None,
        model_weights: list[Any] | None = None,
    ) -> None:
        super().__init__(preprocessor)
        if (model is None) == (model_definition is None):
            raise ValueError(
                "TensorflowPredictor takes a model or a model_definition, one of them"
            )
        tf = try_import("tensorflow", "tensorflow")
        if use_gpu and not tf.config.list_physical_devices("GPU"):
            raise ValueError("use_gpu=True, and TensorFlow finds no GPU in this process")
        self.use_gpu = use_gpu
        with self._device():
            self._model = model if model_definition is None else model_definition()
            if model_weights is not None:
                self._model.set_weights(model_weights)

    def __repr__(self) -> str:
        return (
            f"TensorflowPredictor(model={getattr(self._model, 'name', self._model)!r}, "
            f"preprocessor={self._preprocessor!r}, use_gpu={self.use_gpu})"
        )

    @property
    def model(self) -> keras.Model:
        return self._model

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Checkpoint,
        model_definition: Callable[[], Any] | None = None,
        use_gpu: bool = False,
        *,
        allow_pickle: bool = False,
        **kwargs: Any,
    ) -> TensorflowPredictor:
        """Make the predictor for the model in a checkpoint.

        Args:
            checkpoint: Holds the model or its weights, and maybe a preprocessor.
            model_definition: Builds the model, where the checkpoint has weights only.
            use_gpu: Whether the model runs on a GPU.
            allow_pickle: Whether to read pickles that were not written by this user on this
                machine, which runs whatever code they contain.
            kwargs: For the constructor.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        from skate.train.tensorflow import TensorflowCheckpoint

        holder = TensorflowCheckpoint.from_checkpoint(checkpoint)
        model = holder.get_model(model_definition, allow_pickle=allow_pickle)
        preprocessor = checkpoint.get_preprocessor(allow_pickle=allow_pickle)
        return cls(model, preprocessor=preprocessor, use_gpu=use_gpu, **kwargs)

    def predict(self, data: Batch, dtype: Any = None, **kwargs: Any) -> Batch:
        """Predict for a batch.

        Args:
            data: The batch: an array, a dictionary of arrays, a DataFrame or a pyarrow Table.
            dtype: The type of the tensors, one or a dictionary by column; None keeps those of the
                data.
            **kwargs: None.

        Returns:
            The predictions, in the form that the batch came in.
        """
        return super().predict(data, dtype=dtype, **kwargs)

    def call_model(self, inputs: Any) -> Any:
        """Return the model's output. Override it for models with other inputs or outputs.

        Args:
            inputs: A tensor, or a dictionary of tensors.
        """
        with self._device():
            return self._model(inputs)

    def _device(self) -> Any:
        import tensorflow as tf

        return tf.device("GPU:0" if self.use_gpu else None)

    def _arrays_to_tensors(self, numpy_arrays: Arrays, dtype: object) -> Any:
        from skate.data._api.tensorflow import tensors_of

        if isinstance(numpy_arrays, dict):
            return tensors_of(numpy_arrays, dtype)
        return tensors_of({"data": numpy_arrays}, dtype)["data"]

    def _tensor_to_array(self, tensor: tensorflow.Tensor) -> Array:
        import tensorflow as tf

        if not isinstance(tensor, (tf.Tensor, tf.RaggedTensor)):
            raise self._wrong_output(tensor, "a tf.Tensor")
        array: np.ndarray[Any, Any] = tensor.numpy()
        return array
