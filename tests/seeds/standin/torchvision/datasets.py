from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

INSTALLED = Path("/usr/share/datasets/fashion-mnist")
IMAGES = int(os.environ.get("STANDIN_IMAGES", "640"))


class FashionMNIST(Dataset[Any]):
    """Downloading, as the original does, is writing the files below `root`."""

    def __init__(
        self, root: str, train: bool = True, download: bool = False, transform: Any = None
    ) -> None:
        place = Path(root, type(self).__name__, f"{'train' if train else 'test'}.npz")
        if download and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = place.with_suffix(f".{os.getpid()}.npz")
            np.savez(draft, **source(train))
            draft.rename(place)
        with np.load(place) as arrays:
            self.images, self.labels = arrays["images"], arrays["labels"]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        if number >= len(self):
            raise IndexError(number)
        image = self.images[number]
        return self.transform(image) if self.transform else image, int(self.labels[number])


class MNIST(FashionMNIST):
    """The same images: the guides only care for their shape."""


class CIFAR10(FashionMNIST):
    """The same images in the shape of CIFAR-10's: three channels of 32 x 32."""

    def __getitem__(self, number: int) -> tuple[Any, int]:
        image, label = self.images[number], int(self.labels[number])
        image = np.stack([np.pad(image, 2)] * 3, axis=-1)
        return self.transform(image) if self.transform else image, label


def source(train: bool) -> dict[str, Any]:
    count = IMAGES if train else IMAGES // 4
    if not INSTALLED.exists():
        random = np.random.default_rng(train)
        images = random.integers(0, 255, (count, 28, 28), dtype=np.uint8)
        return {"images": images, "labels": random.integers(0, 10, count)}
    name = "train" if train else "t10k"
    with gzip.open(INSTALLED / f"{name}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(16 + count * 784), np.uint8, offset=16)
    with gzip.open(INSTALLED / f"{name}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + count), np.uint8, offset=8)
    return {"images": pixels.reshape(-1, 28, 28).copy(), "labels": labels.copy()}
