"""`ray.train.tests.lightning_test_utils`: small modules and random data for Lightning."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from skate.train import get_checkpoint
from skate.train.lightning._package import lightning_module

_lightning = lightning_module()
_Module: Any = _lightning.LightningModule
_DataModule: Any = _lightning.LightningDataModule

_WIDTH = 32


class _SummingModule(_Module):  # type: ignore[misc]
    """Its loss is the sum of what `forward` gives, and is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.loss: list[Any] = []

    def training_step(self, batch: Any) -> Any:
        total = self(batch).sum()
        self.log("loss", total)
        return total

    def validation_step(self, val_batch: Any, batch_idx: int) -> dict[str, Any]:
        self.loss.append(self(val_batch))
        return {"val_loss": self.loss[-1]}

    def on_validation_epoch_end(self) -> None:
        self.log("val_loss", torch.stack(self.loss).mean())
        self.loss.clear()

    def test_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"test_loss": self(batch)}

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        return self(batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class LinearModule(_SummingModule):
    """One layer. It fails in the epoch `fail_epoch`, unless the run was restored."""

    def __init__(
        self, input_dim: int, output_dim: int, strategy: str = "ddp", fail_epoch: int = -1
    ) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(input_dim, output_dim)
        self.strategy = strategy
        self.restored = get_checkpoint() is not None
        self.fail_epoch = fail_epoch

    def forward(self, input: Any) -> Any:
        """Apply it to a tensor, or to the only column of a batch."""
        if isinstance(input, dict) and len(input) == 1:
            (input,) = input.values()
        return self.linear(input)

    def training_step(self, batch: Any) -> Any:
        if self.current_epoch == self.fail_epoch and not self.restored:
            raise RuntimeError(f"this module was asked to fail in epoch {self.fail_epoch}")
        return super().training_step(batch)

    def configure_optimizers(self) -> Any:
        sharded = self.strategy == "fsdp"  # whose wrapper has the parameters
        model = self.trainer.model if sharded else self
        return torch.optim.SGD(model.parameters(), lr=0.1)


class DoubleLinearModule(_SummingModule):
    """Two layers, for the columns `input_1` and `input_2` of a batch, and their sum."""

    def __init__(self, input_dim_1: int, input_dim_2: int, output_dim: int) -> None:
        super().__init__()
        self.linear_1 = torch.nn.Linear(input_dim_1, output_dim)
        self.linear_2 = torch.nn.Linear(input_dim_2, output_dim)

    def forward(self, batch: Any) -> Any:
        return self.linear_1(batch["input_1"]) + self.linear_2(batch["input_2"])


class DummyDataModule(_DataModule):  # type: ignore[misc]
    """Random rows of 32 numbers, for each purpose as many."""

    def __init__(self, batch_size: int = 8, dataset_size: int = 256) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.train_data, self.val_data, self.test_data = torch.randn(3, dataset_size, _WIDTH)

    def train_dataloader(self) -> Any:
        return DataLoader(self.train_data, batch_size=self.batch_size)

    def val_dataloader(self) -> Any:
        return DataLoader(self.val_data, batch_size=self.batch_size)

    def test_dataloader(self) -> Any:
        return DataLoader(self.test_data, batch_size=self.batch_size)
