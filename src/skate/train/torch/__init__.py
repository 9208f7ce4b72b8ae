"""Training with PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.optional_imports import try_import
from skate._core.public_names import lazy_names, name_publicly
from skate.train._early_start import expect_workers

expect_workers(
    ["torch", "skate.train._workers.worker", "skate.train.torch"]
)  # beside this process
try_import("torch", "torch")

from skate.train.torch._config import TorchConfig  # noqa: E402
from skate.train.torch._devices import get_device, get_devices  # noqa: E402
from skate.train.torch._loaders import prepare_data_loader  # noqa: E402
from skate.train.torch._models import (  # noqa: E402
    accelerate,
    backward,
    enable_reproducibility,
    prepare_model,
    prepare_optimizer,
)
from skate.train.torch._resilience import ResilientState  # noqa: E402
from skate.train.torch.torch_checkpoint import TorchCheckpoint, load_checkpoint  # noqa: E402
from skate.train.torch.torch_trainer import TorchTrainer  # noqa: E402

if TYPE_CHECKING:
    from skate.predict.torch import TorchPredictor
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "ResilientState",
    "TorchCheckpoint",
    "TorchConfig",
    "TorchPredictor",
    "TorchTrainer",
    "accelerate",
    "backward",
    "enable_reproducibility",
    "get_device",
    "get_devices",
    "load_checkpoint",
    "prepare_data_loader",
    "prepare_model",
    "prepare_optimizer",
]

name_publicly(__name__)
