"""Models in PyTorch in actors: several at once, their weights moved around and averaged."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import skate
from tests.support import Tally

Weights = OrderedDict[str, torch.Tensor]


# -- the user's own code -------------------------------------------------------------------------


class DigitNet(nn.Module):
    """8 x 8 pixels to ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 8, kernel_size=3, padding=1)
        self.output = nn.Linear(8 * 4 * 4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = nn.functional.max_pool2d(torch.relu(self.convolution(images)), 2)
        logits: torch.Tensor = self.output(features.flatten(1))
        return logits


def load_digits(lock: str = "./data.lock", tally: Tally | None = None) -> list[torch.Tensor]:
    """Images and labels; fetched by whoever is first, while the others wait for the lock."""
    from filelock import FileLock

    with FileLock(lock):
        if not Path("./digits.npz").exists():
            fetch_digits("./digits.npz", tally)
    with np.load("./digits.npz") as data:
        return [torch.from_numpy(data["images"]), torch.from_numpy(data["labels"])]


def fetch_digits(path: str, tally: Tally | None) -> None:
    from sklearn.datasets import load_digits as bundled_digits

    if tally is not None:
        tally.add("fetched")
    digits = bundled_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    np.savez(path, images=images, labels=digits.target)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Any) -> None:
    model.train()
    for images, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        right = model(images).argmax(1) == labels
    return float(right.float().mean())


class Network:
    """A model, its optimiser and its data."""

    def __init__(self, lr: float = 0.01, seed: int = 0, tally: Tally | None = None) -> None:
        torch.manual_seed(seed)
        images, labels = load_digits(tally=tally)
        self.test = images[1500:], labels[1500:]
        training = torch.utils.data.TensorDataset(images[:1500], labels[:1500])
        self.batches = torch.utils.data.DataLoader(training, 128, shuffle=True)
        self.model = DigitNet()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr)

    def train(self) -> float:
        train(self.model, self.optimizer, self.batches)
        return accuracy(self.model, *self.test)

    def get_weights(self) -> dict[str, torch.Tensor]:
        return self.model.state_dict()

    def set_weights(self, weights: Weights) -> None:
        self.model.load_state_dict(weights)

    def evaluate(self) -> float:
        return accuracy(self.model, *self.test)


# -- what it does under skate --------------------------------------------------------------------


@pytest.fixture(scope="class")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The driver's working directory, which is the workers' as well."""
    path = tmp_path_factory.mktemp("digits")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        yield path


@pytest.fixture(scope="class")
def networks(one_session: None, folder: Path) -> list[Any]:
    """Two for all tests: the first optimiser of a process takes seconds to import."""
    remote_network = skate.remote(Network)
    return [remote_network.remote(seed=seed) for seed in range(2)]


def averaged(first: Weights, second: Weights) -> Weights:
    return OrderedDict((name, (first[name] + second[name]) / 2) for name in first)


@pytest.mark.usefixtures("one_session")
class TestNetworks:
    def test_models_train_in_parallel(self, networks: list[Any]) -> None:
        for _ in range(3):
            reached = skate.get([network.train.remote() for network in networks])
        assert all(share > 0.7 for share in reached)

    def test_averaged_weights_go_back_into_every_network(self, networks: list[Any]) -> None:
        skate.get([network.train.remote() for network in networks])
        mean = averaged(*skate.get([network.get_weights.remote() for network in networks]))
        weights = skate.put(mean)
        skate.get([network.set_weights.remote(weights) for network in networks])
        for network in networks:
            now = skate.get(network.get_weights.remote())
            assert list(now) == list(mean)
            assert all(torch.equal(now[name], mean[name]) for name in mean)
        first, second = skate.get([network.evaluate.remote() for network in networks])
        assert first == second

    def test_weights_go_from_actor_to_actor_without_the_driver(self, networks: list[Any]) -> None:
        first, second = networks
        skate.get(first.train.remote())
        second.set_weights.remote(first.get_weights.remote())
        assert skate.get(second.evaluate.remote()) == skate.get(first.evaluate.remote())

    def test_training_goes_on_from_averaged_weights(self, networks: list[Any]) -> None:
        for _ in range(3):
            skate.get([network.train.remote() for network in networks])
            mean = averaged(*skate.get([network.get_weights.remote() for network in networks]))
            weights = skate.put(mean)
            skate.get([network.set_weights.remote(weights) for network in networks])
        assert min(skate.get([network.train.remote() for network in networks])) > 0.8

    def test_a_lock_lets_one_actor_fetch_the_data(self, folder: Path, tally: Tally) -> None:
        Path("./digits.npz").unlink(missing_ok=True)
        actors = [skate.remote(Network).remote(tally=tally) for _ in range(2)]
        shares = skate.get([actor.evaluate.remote() for actor in actors])
        assert len(set(shares)) == 1
        assert tally.words() == ["fetched"]
