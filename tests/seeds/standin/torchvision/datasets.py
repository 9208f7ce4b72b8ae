from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from benchmarks.fashion_mnist import fashion_images

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
    images, labels = fashion_images("train" if train else "t10k", count)
    return {"images": images, "labels": labels}
