"""A line, learned by one layer on several workers."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from skate import train
from skate.train import ScalingConfig
from skate.train.torch import TorchTrainer, prepare_data_loader, prepare_model


class LinearDataset(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Points of `y = a * x + b`."""

    def __init__(self, a: float, b: float, size: int = 1000) -> None:
        x = np.arange(0, 10, 10 / size, dtype=np.float32)
        self.x = torch.from_numpy(x)
        self.y = torch.from_numpy(a * x + b)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[index, None], self.y[index, None]

    def __len__(self) -> int:
        return len(self.x)


def train_epoch(epoch: int, loader: Any, model: Any, loss_fn: Any, optimizer: Any) -> None:
    """Go over the data once."""
    if train.get_context().get_world_size() > 1:
        loader.sampler.set_epoch(epoch)
    for x, y in loader:
        loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def validate_epoch(loader: Any, model: Any, loss_fn: Any) -> dict[str, float]:
    """Return the mean loss of the batches."""
    with torch.no_grad():
        losses = [loss_fn(model(x), y).item() for x, y in loader]
    return {"loss": sum(losses) / len(losses)}


def train_func(config: dict[str, Any]) -> list[dict[str, float]]:
    """Run on a worker: report after each epoch, and return all that it has reported."""
    size, batch = config.get("data_size", 1000), config.get("batch_size", 4)
    loaders = [
        prepare_data_loader(DataLoader(LinearDataset(2, 5, part), batch_size=batch))
        for part in (size, max(size * 4 // 10, 1))
    ]
    model = prepare_model(torch.nn.Linear(1, config.get("hidden_size", 1)))
    loss_fn = torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=config.get("lr", 1e-2))
    results = []
    for epoch in range(config.get("epochs", 3)):
        train_epoch(epoch, loaders[0], model, loss_fn, optimizer)
        results.append(validate_epoch(loaders[1], model, loss_fn))
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
            train.report(results[-1], checkpoint=train.Checkpoint.from_directory(folder))
    return results


def train_linear(num_workers: int = 2, use_gpu: bool = False, epochs: int = 3) -> Any:
    """Train it, and return the metrics of the last epoch."""
    config = {"lr": 1e-2, "hidden_size": 1, "batch_size": 4, "epochs": epochs}
    scaling = ScalingConfig(num_workers=num_workers, use_gpu=use_gpu)
    trainer = TorchTrainer(train_func, train_loop_config=config, scaling_config=scaling)
    return trainer.fit().metrics
