"""The device of a worker."""

from __future__ import annotations

import os
from typing import Any

import torch

from skate._run.session import current
from skate.train._workers.gpus import OWN_GPUS


def get_devices() -> list[torch.device]:
    """Return the devices of this worker: its GPUs, or the CPU."""
    session = current("train.torch.get_devices()")
    if not torch.cuda.is_available():
        return [torch.device("cpu")]
    own = [gpu for gpu in os.environ.get(OWN_GPUS, "").split(",") if gpu]
    seen = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    if getattr(session, "is_launched", False):
        return [torch.device(f"cuda:{session.info.local_rank % torch.cuda.device_count()}")]
    if own:
        return [torch.device(f"cuda:{seen.index(gpu) if gpu in seen else 0}") for gpu in own]
    if session.info.world_size == 1:  # as in the calling process, with num_workers=0
        return [torch.device("cuda:0")]
    return [torch.device("cpu")]


def get_device() -> torch.device:
    """Return the device of this worker; the first of several.

    Example:
        >>> from skate.train.torch import TorchTrainer, get_device
        >>> def loop():
        ...     skate.train.report({"device": get_device().type})
        >>> quiet = skate.train.RunConfig(verbose=0)
        >>> TorchTrainer(loop, run_config=quiet).fit().metrics["device"]
        'cpu'
    """
    return get_devices()[0]


def moved(value: object, device: torch.device, non_blocking: bool = False) -> Any:
    """Move a batch, with all tensors in it, to the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, dict):
        return {name: moved(inner, device, non_blocking) for name, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(inner, device, non_blocking) for inner in value))
    if isinstance(value, (list, tuple)):
        return type(value)(moved(inner, device, non_blocking) for inner in value)
    to = getattr(value, "to", None)
    return to(device) if callable(to) else value
