"""Train a classifier on a folder of JPEGs, one sub-folder per class.

Draws its own pictures first (circles and squares), so that it runs anywhere. Files are read and
decoded in parallel, and stream into two training workers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn

import skate.data
from skate import train
from skate.train import RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer, prepare_model

CLASSES = ("circle", "square")
SIDE = 24


def draw(folder: Path, per_class: int) -> None:
    """Write `per_class` JPEGs of each class."""
    random = np.random.default_rng(0)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            picture = Image.new("L", (SIDE, SIDE))
            left, top = random.integers(1, 8, 2)
            size = int(random.integers(10, 15))
            box = (left, top, left + size, top + size)
            pen = ImageDraw.Draw(picture)
            (pen.ellipse if name == "circle" else pen.rectangle)(box, fill=255)
            picture.save(folder / name / f"{number}.jpg")


def labelled(row: dict[str, Any]) -> dict[str, Any]:
    """Turn the path of an image into its class, and its bytes into floats."""
    name = Path(row["path"]).parent.name
    return {"image": row["image"].astype(np.float32) / 255, "label": CLASSES.index(name)}


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 32), nn.ReLU(), nn.Linear(32, 2))
    model = prepare_model(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    shard = train.get_dataset_shard("train")
    for _ in range(config["epochs"]):
        right = seen = 0
        for batch in shard.iter_torch_batches(batch_size=32):
            scores = model(batch["image"])
            loss = nn.functional.cross_entropy(scores, batch["label"])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            right += int((scores.argmax(1) == batch["label"]).sum())
            seen += len(scores)
        train.report({"accuracy": right / seen})


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "pictures"
        draw(folder, per_class=100)
        rows = skate.data.read_images(str(folder), mode="L", include_paths=True).map(labelled)
        result = TorchTrainer(
            loop,
            train_loop_config={"lr": 0.005, "epochs": 15},
            datasets={"train": rows.random_shuffle(seed=0).materialize()},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=f"{place}/runs", verbose=0),
        ).fit()
    accuracy = (result.metrics or {})["accuracy"]
    print("it learned" if accuracy > 0.9 else "it did not learn", accuracy)


if __name__ == "__main__":
    main()
