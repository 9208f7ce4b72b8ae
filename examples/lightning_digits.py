"""Train a Lightning module on handwritten digits with two workers, then load what it saved.

The module is what it would be without skate; only the trainer in the loop gets a strategy, an
environment and a callback that know the workers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import skate
from skate.train import RunConfig, ScalingConfig
from skate.train.lightning import (
    DDPStrategy,
    LightningEnvironment,
    TrainReportCallback,
    prepare_trainer,
)
from skate.train.torch import TorchTrainer


class Classifier(pl.LightningModule):
    """A small network for images of 8 x 8 pixels."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        right = (self.layers(batch[0]).argmax(1) == batch[1]).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams["lr"])


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return 1,500 digits to learn from, and 297 to be judged by."""
    pixels, names = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(names)
    return TensorDataset(images[:1500], labels[:1500]), TensorDataset(images[1500:], labels[1500:])


def loop(config: dict[str, Any]) -> None:
    learn, judge = digits()
    trainer = pl.Trainer(
        max_epochs=config["epochs"],
        accelerator="cpu",
        strategy=DDPStrategy(),
        plugins=[LightningEnvironment()],
        callbacks=[TrainReportCallback()],
        enable_progress_bar=False,
        enable_checkpointing=False,
        logger=False,
    )
    prepare_trainer(trainer).fit(
        Classifier(config["lr"]),
        DataLoader(learn, batch_size=32, shuffle=True),
        DataLoader(judge, batch_size=300),
    )


def main() -> None:
    skate.init(log_to_driver=False)  # Lightning's own tables and notes
    with tempfile.TemporaryDirectory() as place:
        result = TorchTrainer(
            loop,
            train_loop_config={"lr": 0.01, "epochs": 6},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=place, verbose=0),
        ).fit()
        assert result.checkpoint is not None
        with result.checkpoint.as_directory() as folder:
            file = Path(folder, TrainReportCallback.CHECKPOINT_NAME)
            model = Classifier.load_from_checkpoint(file, map_location="cpu")
    images, labels = digits()[1].tensors
    right = float((model.layers(images).argmax(1) == labels).float().mean())
    print("it reads digits" if right > 0.85 else "it does not read", f"{right:.0%} right")


if __name__ == "__main__":
    main()
