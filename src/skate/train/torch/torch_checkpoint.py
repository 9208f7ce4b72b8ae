"""Models of PyTorch in checkpoints."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from skate._core.plain_files import open_plain
from skate._run.checkpoint import MODEL_KEY, Checkpoint, check_checkpoint
from skate._run.own_files import TORCH_FILES
from skate._run.pickles import read_signed
from skate.exceptions import UnreadablePickleError

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor


MODEL_FILE = "model.pt"

AnyTorchCheckpoint = TypeVar("AnyTorchCheckpoint", bound="TorchCheckpoint")


class TorchCheckpoint(Checkpoint):
    """Hold a model of torch, or a model's weights.

    Args:
        path: The folder that they are in.
        filesystem: The Arrow file system that `path` is on, if not this machine's.
    """

    MODEL_FILENAME = MODEL_FILE

    @classmethod
    def from_state_dict(
        cls: type[AnyTorchCheckpoint],
        state_dict: dict[str, Any],
        *,
        preprocessor: Preprocessor | None = None,
    ) -> AnyTorchCheckpoint:
        """Make a checkpoint that holds weights.

        Args:
            state_dict: What `model.state_dict()` gives.
            preprocessor: A preprocessor to keep with it; None for none.

        Raises:
            TypeError: If it is no dictionary.

        Example:
            >>> import torch
            >>> from skate.train.torch import TorchCheckpoint
            >>> checkpoint = TorchCheckpoint.from_state_dict(torch.nn.Linear(2, 1).state_dict())
            >>> checkpoint.get_model(torch.nn.Linear(2, 1))
            Linear(in_features=2, out_features=1, bias=True)
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                "TorchCheckpoint.from_state_dict takes model.state_dict(); "
                f"got {type(state_dict).__name__}"
            )
        return cls._with(without_wrapper(state_dict), preprocessor)

    @classmethod
    def from_model(
        cls: type[AnyTorchCheckpoint],
        model: torch.nn.Module,
        *,
        preprocessor: Preprocessor | None = None,
    ) -> AnyTorchCheckpoint:
        """Make a checkpoint that holds a whole model.

        Args:
            model: The model.
            preprocessor: A preprocessor to keep with it; None for none.

        Raises:
            TypeError: If it is no `torch.nn.Module`.

        Example:
            >>> import torch
            >>> from skate.train.torch import TorchCheckpoint
            >>> TorchCheckpoint.from_model(torch.nn.Linear(2, 1)).get_model()
            Linear(in_features=2, out_features=1, bias=True)
        """
        if not isinstance(model, torch.nn.Module):
            raise TypeError(
                f"TorchCheckpoint.from_model takes a torch.nn.Module; got {type(model).__name__}"
            )
        return cls._with(unwrapped(model), preprocessor)

    @classmethod
    def _with(
        cls: type[AnyTorchCheckpoint], content: Any, preprocessor: Preprocessor | None
    ) -> AnyTorchCheckpoint:
        checkpoint = cls.from_dict({MODEL_KEY: content})
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        return checkpoint

    def get_model(
        self, model: torch.nn.Module | None = None, *, allow_pickle: bool = False
    ) -> torch.nn.Module:
        """Return the model; where only weights were saved, `model` with these weights.

        Args:
            model: Gets the weights, if there are only weights.
            allow_pickle: Whether to read more than weights from a checkpoint that was not written
                by this user on this machine, which runs whatever code it contains.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        return model_in(self, model, allow_pickle)


def model_in(
    checkpoint: Checkpoint, model: torch.nn.Module | None = None, allow_pickle: bool = False
) -> torch.nn.Module:
    """Load the model in a checkpoint: saved as "model" of a dict, or as a file `model.pt`."""
    saved = _saved(checkpoint, allow_pickle or checkpoint._allow_pickle)
    if isinstance(saved, torch.nn.Module):
        return unwrapped(saved)
    if model is None:
        raise ValueError("the checkpoint holds only weights: give the model that they belong to")
    model.load_state_dict(without_wrapper(saved))
    return model


def _saved(checkpoint: Checkpoint, allow_pickle: bool) -> Any:
    internal = checkpoint._data
    if internal is None:
        with checkpoint.as_directory() as folder:
            for name in TORCH_FILES:
                place = os.path.join(folder, name)
                if os.path.exists(place):
                    return _loaded(place, allow_pickle)
        internal = checkpoint.to_dict(allow_pickle=allow_pickle)
    for name in (MODEL_KEY, "model_state_dict", "state_dict"):
        if name in internal:
            return internal[name]
    raise ValueError(
        f"there is no model in this checkpoint: it has {sorted(map(str, internal))}; "
        f'save it as "{MODEL_KEY}", or as the file {MODEL_FILE}'
    )


def _loaded(place: str, allow_pickle: bool) -> Any:
    """Load what torch has saved in a file: weights in any case, all else only if it is ours."""
    try:
        with open(open_plain(place), "rb") as file:
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception:  # not weights alone, TorchScript, damaged, or no file
        data = io.BytesIO(read_signed(place, allow_pickle))
    try:
        return torch.load(data, map_location="cpu", weights_only=False)
    except Exception as error:
        raise UnreadablePickleError(place, error) from error


def load_checkpoint(
    checkpoint: Checkpoint, model: torch.nn.Module | None = None, *, allow_pickle: bool = False
) -> tuple[torch.nn.Module, Any]:
    """Return the model with the weights of a checkpoint, and its preprocessor or None.

    Args:
        checkpoint: Holds a model or its weights.
        model: Gets the weights, if there are only weights.
        allow_pickle: Whether to read more than weights from a checkpoint that was not written by
            this user on this machine, which runs whatever code it contains.

    Raises:
        UntrustedPickleError: If it was written elsewhere, and that is not allowed.
    """
    check_checkpoint(checkpoint, "train.torch.load_checkpoint")
    preprocessor = checkpoint.get_preprocessor(allow_pickle=allow_pickle)
    return model_in(checkpoint, model, allow_pickle), preprocessor


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Return the model without what `prepare_model` put around it."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        inner: torch.nn.Module = model.module
        return inner
    return model


def without_wrapper(state: dict[str, Any]) -> dict[str, Any]:
    """Return the weights of a model wrapped for several workers under their own names."""
    prefix = "module."
    if state and all(name.startswith(prefix) for name in state):
        return {name.removeprefix(prefix): value for name, value in state.items()}
    return state
