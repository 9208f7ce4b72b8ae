"""Tune a PyTorch loop: layer sizes, learning rate and batch size.

ASHA stops trials that lag behind; the checkpoint of the best one is tested on pictures that no
trial saw.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from skate import tune
from skate.train import Checkpoint, RunConfig
from skate.tune.schedulers import ASHAScheduler

EPOCHS = 6


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return pictures to learn from, and others to test with."""
    found = load_digits()
    pixels = torch.tensor(found.data / 16, dtype=torch.float32)
    labels = torch.tensor(found.target)
    return TensorDataset(pixels[:1400], labels[:1400]), TensorDataset(pixels[1400:], labels[1400:])


def network(first: int, second: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, 10)
    )


def accuracy(model: nn.Module, pictures: Any) -> float:
    with torch.inference_mode():
        hits = [(model(x).argmax(1) == y).float().mean() for x, y in DataLoader(pictures, 200)]
    return float(torch.stack(hits).mean())


def learn(config: dict[str, Any], data: TensorDataset) -> None:
    torch.manual_seed(0)
    model = network(config["first"], config["second"])
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    begun = 0
    if (checkpoint := tune.get_checkpoint()) is not None:  # after a failure, or a restore
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begun = state["epoch"]
    learning, checking = random_split(data, [0.8, 0.2])
    for epoch in range(begun, EPOCHS):
        for pixels, labels in DataLoader(learning, config["batch_size"], shuffle=True):
            optimizer.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(model(pixels), labels))
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "epoch": epoch + 1}, Path(folder) / "state.pt")
            tune.report(
                {"accuracy": accuracy(model, checking)},
                checkpoint=Checkpoint.from_directory(folder),
            )


def main() -> None:
    learning, testing = digits()
    space = {
        "first": tune.choice([2**power for power in range(4, 8)]),
        "second": tune.choice([2**power for power in range(4, 8)]),
        "lr": tune.loguniform(1e-4, 1e-1),
        "batch_size": tune.choice([8, 16, 32]),
    }
    with tempfile.TemporaryDirectory() as place:
        grid = tune.Tuner(
            tune.with_parameters(learn, data=learning),
            param_space=space,
            tune_config=tune.TuneConfig(
                metric="accuracy",
                mode="max",
                num_samples=8,
                scheduler=ASHAScheduler(max_t=EPOCHS, grace_period=1, reduction_factor=2),
                seed=1,
            ),
            run_config=RunConfig(storage_path=place, verbose=0),
        ).fit()
        epochs = [int((result.metrics or {})["training_iteration"]) for result in grid]
        print(f"{len(epochs)} trials, stopped early: {np.sum(np.array(epochs) < EPOCHS)}")
        best = grid.get_best_result()
        assert best.checkpoint is not None
        assert best.config is not None
        with best.checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt")
    model = network(best.config["first"], best.config["second"])
    model.load_state_dict(state["model"])
    print(f"the best of them names {accuracy(model, testing):.0%} of the test set correctly")


if __name__ == "__main__":
    main()
