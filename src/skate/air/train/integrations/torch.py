"""Training with PyTorch."""

from skate.train.torch import TorchConfig, TorchTrainer, load_checkpoint

__all__ = ["TorchConfig", "TorchTrainer", "load_checkpoint"]
