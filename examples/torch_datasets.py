"""PyTorch and datasets: from a torch dataset over tensors in Parquet to training and prediction.

Functions may return tensors; batches for training are tensors; the model is loaded once per actor.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

import skate.data
from skate import train
from skate.data import Dataset
from skate.train import Checkpoint, RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer, prepare_model

ROWS, FEATURES = 2_000, 4


def torch_dataset() -> TensorDataset:
    """Return points, and whether the sum of their coordinates is positive."""
    torch.manual_seed(0)
    points = torch.randn(ROWS, FEATURES)
    return TensorDataset(points, (points.sum(1) > 0).float())


def with_names(row: dict[str, Any]) -> dict[str, Any]:
    point, label = row["item"]
    return {"point": torch.as_tensor(point), "label": float(label)}


def normalised(batch: dict[str, Any]) -> dict[str, Any]:
    # A function may return tensors; the next one gets NumPy arrays.
    points = torch.as_tensor(batch["point"])
    return {"point": points / points.norm(dim=1, keepdim=True), "label": batch["label"]}


def learn(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    bare = nn.Sequential(nn.Linear(FEATURES, 1), nn.Flatten(0))
    model = prepare_model(bare)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    shard = train.get_dataset_shard("train")
    for _ in range(4):
        for batch in shard.iter_torch_batches(batch_size=50, dtypes=torch.float32):
            optimizer.zero_grad()
            outputs = model(batch["point"])
            loss = nn.functional.binary_cross_entropy_with_logits(outputs, batch["label"])
            torch.autograd.backward(loss)
            optimizer.step()
        state = {"model": bare.state_dict()}
        train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_dict(state))


class Classifier:
    """Loads the model once for each actor, and names batch after batch."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.model = nn.Sequential(nn.Linear(FEATURES, 1), nn.Flatten(0))
        self.model.load_state_dict(checkpoint.to_dict()["model"])

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        with torch.inference_mode():
            positive = self.model(torch.as_tensor(batch["point"])) > 0
        return {"correct": positive.numpy() == (batch["label"] > 0.5)}


def fit(rows: Dataset, folder: str) -> Checkpoint:
    result = TorchTrainer(
        learn,
        train_loop_config={"lr": 0.05},
        datasets={"train": rows},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=folder, verbose=0),
    ).fit()
    assert result.checkpoint is not None
    return result.checkpoint


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        points = str(Path(place) / "points")
        rows = skate.data.from_torch(torch_dataset()).map(with_names)
        rows.map_batches(normalised).write_parquet(points)  # tensors keep their shape and type
        stored = skate.data.read_parquet(points)
        batch = next(iter(stored.iter_torch_batches(batch_size=8)))
        print(f"{stored.count():,} points, in batches of {tuple(batch['point'].shape)}")

        learning, checking = stored.train_test_split(0.25)
        checkpoint = fit(learning, place)
        checked = checking.map_batches(
            Classifier, fn_constructor_args=(checkpoint,), concurrency=2, batch_size=100
        )
        correct = np.mean([row["correct"] for row in checked.take_all()])
        print(f"{correct:.0%} of the points that it never saw are named correctly")


if __name__ == "__main__":
    main()
