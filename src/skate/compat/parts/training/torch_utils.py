"""`ray.air._internal.torch_utils`: models of PyTorch, and whether there are tensors in a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

import skate
from skate._run.session import in_session
from skate.train.torch import _devices
from skate.train.torch.torch_checkpoint import without_wrapper

__all__ = ["contains_tensor", "get_devices", "load_torch_model"]


def get_devices() -> list[torch.device]:
    """Return the devices of this process, also where nothing is trained: the GPUs that the task or
    actor was given, or the CPU."""
    if in_session():
        return _devices.get_devices()
    if not torch.cuda.is_available():
        return [torch.device("cpu")]
    return [torch.device("cuda", number) for number in range(len(skate.get_gpu_ids()))] or [
        torch.device("cpu")
    ]


def load_torch_model(
    saved_model: torch.nn.Module | dict[str, Any], model_definition: torch.nn.Module | None = None
) -> torch.nn.Module:
    """Return a model as it is, or one that is given what was saved of its state."""
    if isinstance(saved_model, torch.nn.Module):
        return saved_model
    if not isinstance(saved_model, dict):
        raise ValueError(f"expected a model or its state_dict; got {type(saved_model).__name__}")
    if model_definition is None:
        raise ValueError("a state_dict needs model_definition=, the model that it is of")
    model_definition.load_state_dict(without_wrapper(saved_model))
    return model_definition


def contains_tensor(obj: object) -> bool:
    """Return whether a value is a tensor, or has one somewhere in its dicts and sequences."""
    if isinstance(obj, torch.Tensor):
        return True
    if isinstance(obj, Mapping):
        return any(contains_tensor(part) for pair in obj.items() for part in pair)
    return isinstance(obj, (list, tuple, set)) and any(contains_tensor(part) for part in obj)
