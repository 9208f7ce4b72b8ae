"""The one `TorchConfig`."""

from skate.train.torch._config import TorchBackend, TorchConfig

__all__ = ["TorchBackend", "TorchConfig"]
