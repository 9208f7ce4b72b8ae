"""Predictions by PyTorch models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.optional_imports import try_import
from skate._run.checkpoint import Checkpoint
from skate.predict._batches import Arrays, Batch
from skate.predict._tensor_predictor import TensorPredictor

if TYPE_CHECKING:
    import torch

    from skate._core.arrays import Array
    from skate.data.preprocessor import Preprocessor


class TorchPredictor(TensorPredictor):
    """Predict with a `torch.nn.Module`, in evaluation mode and without gradients.

    Args:
        model: The model.
        preprocessor: What batches are transformed by first; None for nothing.
        use_gpu: Whether the model runs on a GPU.

    Raises:
        ValueError: If there is to be a GPU, and torch finds none.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from skate.train.torch import TorchPredictor
        >>> predictor = TorchPredictor(torch.nn.Flatten())
        >>> predictor.predict(np.ones((2, 1, 3), dtype="float32"))["predictions"].shape
        (2, 3)
    """

    def __init__(
        self, model: Any, preprocessor: Preprocessor | None = None, use_gpu: bool = False
    ) -> None:
        super().__init__(preprocessor)
        torch = try_import("torch", "torch")
        if use_gpu and not torch.cuda.is_available():
            raise ValueError("use_gpu=True, and torch finds no GPU in this process")
        self.use_gpu = use_gpu
        self.device: Any = torch.device("cuda" if use_gpu else "cpu")
        self.model: Any = model.to(self.device).eval()

    def __repr__(self) -> str:
        return (
            f"TorchPredictor(model={type(self.model).__name__}, "
            f"preprocessor={self._preprocessor!r}, use_gpu={self.use_gpu})"
        )

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Checkpoint,
        model: Any = None,
        use_gpu: bool = False,
        *,
        allow_pickle: bool = False,
        **kwargs: Any,
    ) -> TorchPredictor:
        """Make the predictor for the model in a checkpoint.

        Args:
            checkpoint: Holds the model or its weights, and maybe a preprocessor.
            model: Gets the weights, where the checkpoint has weights only.
            use_gpu: Whether the model runs on a GPU.
            allow_pickle: Whether to read pickles that were not written by this user on this
                machine, which runs whatever code they contain.
            kwargs: For the constructor.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        from skate.train.torch import load_checkpoint

        loaded, preprocessor = load_checkpoint(checkpoint, model, allow_pickle=allow_pickle)
        return cls(loaded, preprocessor=preprocessor, use_gpu=use_gpu, **kwargs)

    def predict(self, data: Batch, dtype: Any = None, **kwargs: Any) -> Batch:
        """Predict for a batch.

        Args:
            data: The batch: an array, a dictionary of arrays, a DataFrame or a pyarrow Table.
            dtype: The type of the tensors, one or a dictionary by column; by default floats get
                the precision of the model's weights, and other types are kept.
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
        import torch

        with torch.no_grad():
            return self.model(inputs)

    def _arrays_to_tensors(self, numpy_arrays: Arrays, dtype: object) -> Any:
        from skate.data._execution.batching import moved

        if not isinstance(numpy_arrays, dict):
            return moved(self._tensor(numpy_arrays, dtype, "data"), self.device, False)
        by_name = dtype if isinstance(dtype, dict) else dict.fromkeys(numpy_arrays, dtype)
        tensors = {
            name: self._tensor(array, by_name.get(name), str(name))
            for name, array in numpy_arrays.items()
        }
        return moved(tensors, self.device, False)

    def _tensor(self, array: Array, dtype: Any, name: str) -> Any:
        from skate.data._execution.batching import tensor_of

        tensor = tensor_of(array, dtype, name)
        if dtype is None and tensor.is_floating_point():
            weights = (p.dtype for p in self.model.parameters() if p.is_floating_point())
            return tensor.to(next(weights, tensor.dtype))
        return tensor

    def _tensor_to_array(self, tensor: torch.Tensor) -> Array:
        import torch

        if not isinstance(tensor, torch.Tensor):
            raise self._wrong_output(tensor, "a torch.Tensor")
        array: np.ndarray[Any, Any] = tensor.detach().cpu().numpy()
        return array
