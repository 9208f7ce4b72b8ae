"""From pictures to a service: train, predict, tune and serve a classifier of clothes.

scripts/quickstart, or: python examples/fashion_mnist.py [--quick] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.request
from typing import Any

import numpy as np
import torch
from fashion_images import Pictures, load_pictures
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import skate
import skate.data
from skate import serve, train, tune
from skate.train import CheckpointConfig, RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from skate.tune.schedulers import ASHAScheduler

RATES = (0.1, 0.01, 0.001)
WEIGHTS = "model.pt"


# -- the model and its training, as for one process ----------------------------------------------


def make_model(pixels: int, classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(pixels, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, classes)
    )


def as_floats(pixels: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(pixels, np.float32) / 255)


def accuracy(model: nn.Module, pixels: Any, labels: Any) -> float:
    with torch.no_grad():
        found = model(as_floats(pixels)).argmax(1)
    return float((found == torch.tensor(labels)).float().mean())


def learn(config: dict[str, Any]) -> None:
    """Train in each worker: the same loop for one, for two, and inside of a search.

    What is skate's are the two `prepare` functions and the report.
    """
    (pixels, labels), test = skate.get(config["pictures"])
    shuffled = DataLoader(
        TensorDataset(as_floats(pixels), torch.tensor(labels)), batch_size=128, shuffle=True
    )
    loader = prepare_data_loader(shuffled)
    model = prepare_model(make_model(pixels.shape[1], config["classes"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    for _ in range(config["epochs"]):
        model.train()
        for inputs, wanted in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), wanted)
            torch.autograd.backward(loss)
            optimizer.step()
        model.eval()
        bare = getattr(model, "module", model)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(bare.state_dict(), os.path.join(folder, WEIGHTS))
            train.report(
                {"loss": loss.item(), "accuracy": accuracy(bare, *test)},
                checkpoint=train.Checkpoint.from_directory(folder),
            )


def load_model(checkpoint: train.Checkpoint, pixels: int, classes: int) -> nn.Module:
    model = make_model(pixels, classes)
    with checkpoint.as_directory() as folder:
        model.load_state_dict(torch.load(os.path.join(folder, WEIGHTS)))
    return model.eval()


class Classifier:
    """Names what is on a picture: for batches of a dataset, and for requests."""

    def __init__(self, checkpoint: train.Checkpoint, pixels: int, names: tuple[str, ...]) -> None:
        self.model = load_model(checkpoint, pixels, len(names))
        self.names = np.array(names)

    def name_all(self, pixels: Any) -> Any:
        with torch.no_grad():
            return self.names[self.model(as_floats(pixels)).argmax(1).numpy()]

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"predicted": self.name_all(batch["pixels"]), "real": self.names[batch["label"]]}


@serve.deployment
class Service:
    """Answers with the name of the picture that a request brings."""

    def __init__(self, checkpoint: train.Checkpoint, pixels: int, names: tuple[str, ...]) -> None:
        self.classifier = Classifier(checkpoint, pixels, names)

    async def __call__(self, request: Any) -> dict[str, str]:
        pixels = np.array([await request.json()], dtype=np.uint8)
        return {"name": str(self.classifier.name_all(pixels)[0])}


# -- the story ------------------------------------------------------------------------------------


class Story:
    """The steps, one after the other; each says what it did, and where its files are."""

    def __init__(self, folder: str, share: float, epochs: int) -> None:
        self.folder = folder
        self.share = share
        self.epochs = epochs

    def load(self) -> str:
        """Load the pictures."""
        found = load_pictures()
        count = int(len(found.train[1]) * self.share)
        pixels, labels = found.train
        self.pictures: Pictures = found._replace(train=(pixels[:count], labels[:count]))
        self.config = {
            # Stored once: workers read it from shared memory.
            "pictures": skate.put((self.pictures.train, self.pictures.test)),
            "classes": len(found.names),
            "epochs": self.epochs,
        }
        return f"{count:,} to learn from, {len(found.test[1]):,} to check: {found.source}"

    def train(self) -> str:
        """Train with two workers."""
        trainer = TorchTrainer(
            learn,
            train_loop_config={**self.config, "lr": 0.05},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(
                name="train",
                storage_path=self.folder,
                checkpoint_config=CheckpointConfig(num_to_keep=1),
            ),
        )
        result = trainer.fit()
        assert result.checkpoint is not None
        assert result.metrics is not None
        self.checkpoint = result.checkpoint
        return f"{result.metrics['accuracy']:.1%} right after {self.epochs} epochs: {result.path}"

    def predict(self) -> str:
        """Predict the test set with two workers."""
        pixels, labels = self.pictures.test
        rows = [
            {"pixels": each, "label": label} for each, label in zip(pixels, labels, strict=True)
        ]
        named = skate.data.from_items(rows).map_batches(
            Classifier,
            fn_constructor_args=(self.checkpoint, pixels.shape[1], self.pictures.names),
            batch_size=1024,
            concurrency=2,
        )
        path = os.path.join(self.folder, "predictions")
        named.write_parquet(path, mode="overwrite")  # those of an earlier run go
        table = skate.data.read_parquet(path).to_pandas()
        print(table.head(5).to_string(index=False))
        right = (table["predicted"] == table["real"]).mean()
        return f"{len(table):,} pictures named, {right:.1%} of them right: {path}"

    def tune(self) -> str:
        """Try three learning rates, and stop the worst early."""
        tuner = tune.Tuner(
            learn,
            param_space={**self.config, "lr": tune.grid_search(list(RATES))},
            tune_config=tune.TuneConfig(
                metric="accuracy",
                mode="max",
                scheduler=ASHAScheduler(max_t=self.epochs, grace_period=1, reduction_factor=2),
            ),
            run_config=RunConfig(name="tune", storage_path=self.folder),
        )
        grid = tuner.fit()
        best = grid.get_best_result()
        assert best.checkpoint is not None
        assert best.metrics is not None
        assert best.config is not None
        self.checkpoint = best.checkpoint
        return (
            f"lr={best.config['lr']:g} is the best of {len(grid)}, "
            f"{best.metrics['accuracy']:.1%} right: {grid.experiment_path}"
        )

    def serve(self) -> str:
        """Serve the best one, and ask it."""
        pixels, labels = self.pictures.test
        serve.start(http_options={"port": 0})
        serve.run(Service.bind(self.checkpoint, pixels.shape[1], self.pictures.names))
        address = serve.http_address()
        request = urllib.request.Request(
            address, json.dumps(pixels[0].tolist()).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            name = json.load(response)["name"]
        serve.shutdown()
        real = self.pictures.names[labels[0]]
        return f"POST {address} answered {name!r} for a picture of {real!r}"


def command() -> str:
    """Return what calls skate in a shell: scripts/quickstart puts nothing on its path."""
    return "skate" if shutil.which("skate") else f"{os.path.relpath(sys.executable)} -m skate"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the pictures, one epoch")
    parser.add_argument("--folder", default="skate-quickstart", help="where to put the files")
    given = parser.parse_args()
    begun = time.perf_counter()
    story = Story(os.path.abspath(given.folder), *((0.1, 1) if given.quick else (1.0, 3)))
    for step in (story.load, story.train, story.predict, story.tune, story.serve):
        print(f"\n== {step.__doc__}", flush=True)
        start = time.perf_counter()
        said = step()
        print(f"{said}\n({time.perf_counter() - start:.1f} s)", flush=True)
    print(f"\nDone in {time.perf_counter() - begun:.1f} s. To try next:")
    print(f"  {command()} tune show {story.folder}/tune --metric accuracy --mode max")
    print(f"  {command()} data head {story.folder}/predictions")
    print("  examples/fashion_mnist.py is the program, docs/ has a guide for each part")


if __name__ == "__main__":
    main()
