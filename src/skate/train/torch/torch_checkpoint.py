"""Models of PyTorch in checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

import torch

from skate._run.checkpoint import MODEL_KEY, Checkpoint, check_checkpoint

MODEL_FILE = "model.pt"

AnyTorchCheckpoint = TypeVar("AnyTorchCheckpoint", bound="TorchCheckpoint")


class TorchCheckpoint(Checkpoint):
    """A checkpoint with a model, or a model's weights."""

    MODEL_FILENAME = MODEL_FILE

    @classmethod
    def from_state_dict(
        cls: type[AnyTorchCheckpoint], state_dict: dict[str, Any], *, preprocessor: Any = None
    ) -> AnyTorchCheckpoint:
        """One that holds weights."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                "TorchCheckpoint.from_state_dict takes model.state_dict(); "
                f"got {type(state_dict).__name__}"
            )
        return cls._with(without_wrapper(state_dict), preprocessor)

    @classmethod
    def from_model(
        cls: type[AnyTorchCheckpoint], model: torch.nn.Module, *, preprocessor: Any = None
    ) -> AnyTorchCheckpoint:
        """One that holds a whole model."""
        if not isinstance(model, torch.nn.Module):
            raise TypeError(
                f"TorchCheckpoint.from_model takes a torch.nn.Module; got {type(model).__name__}"
            )
        return cls._with(unwrapped(model), preprocessor)

    @classmethod
    def _with(
        cls: type[AnyTorchCheckpoint], content: Any, preprocessor: Any
    ) -> AnyTorchCheckpoint:
        checkpoint = cls.from_dict({MODEL_KEY: content})
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        return checkpoint

    def get_model(self, model: torch.nn.Module | None = None) -> torch.nn.Module:
        """The model; where only weights were saved, `model` with these weights."""
        return model_in(self, model)


def model_in(checkpoint: Checkpoint, model: torch.nn.Module | None = None) -> torch.nn.Module:
    """The model in a checkpoint: saved as "model" of a dict, or as a file `model.pt`."""
    saved = _saved(checkpoint)
    if isinstance(saved, torch.nn.Module):
        return unwrapped(saved)
    if model is None:
        raise ValueError("the checkpoint holds only weights: give the model that they belong to")
    model.load_state_dict(without_wrapper(saved))
    return model


def _saved(checkpoint: Checkpoint) -> Any:
    internal = checkpoint._data
    if internal is None:
        with checkpoint.as_directory() as folder:
            for name in (MODEL_FILE, "model.pth", "checkpoint.pt"):
                place = os.path.join(folder, name)
                if os.path.exists(place):
                    return torch.load(place, map_location="cpu", weights_only=False)
        internal = checkpoint.to_dict()
    for name in (MODEL_KEY, "model_state_dict", "state_dict"):
        if name in internal:
            return internal[name]
    raise ValueError(
        f"there is no model in this checkpoint: it has {sorted(map(str, internal))}; "
        f'save it as "{MODEL_KEY}", or as the file {MODEL_FILE}'
    )


def load_checkpoint(
    checkpoint: Checkpoint, model: torch.nn.Module | None = None
) -> tuple[torch.nn.Module, Any]:
    """The model with the weights of a checkpoint, and its preprocessor or None."""
    check_checkpoint(checkpoint, "train.torch.load_checkpoint")
    return model_in(checkpoint, model), checkpoint.get_preprocessor()


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Without what `prepare_model` put around it."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        inner: torch.nn.Module = model.module
        return inner
    return model


def without_wrapper(state: dict[str, Any]) -> dict[str, Any]:
    """The weights of a model that was wrapped for several workers, under their own names."""
    prefix = "module."
    if state and all(name.startswith(prefix) for name in state):
        return {name.removeprefix(prefix): value for name, value in state.items()}
    return state
