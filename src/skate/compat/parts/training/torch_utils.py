"""`ray.air._internal.torch_utils`: models of PyTorch, and whether there are tensors in a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from skate.train.torch._devices import get_devices
from skate.train.torch.torch_checkpoint import without_wrapper

__all__ = ["contains_tensor", "get_devices", "load_torch_model"]


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
