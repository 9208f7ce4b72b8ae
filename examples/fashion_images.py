"""Pictures of clothes with their labels: FashionMNIST, or digits where that cannot be had."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
DIGITS = tuple("0123456789")
_DEBIAN = "usr/share/datasets/fashion-mnist"  # where the package dataset-fashion-mnist puts it
_PARTS = {"train": "train", "test": "t10k"}


class Pictures(NamedTuple):
    """Pictures of one kind and size.

    Args:
        train: Bytes of the pictures to learn from, one row of pixels each, and their labels.
        test: The same, of others to check what was learned.
        names: What the labels mean.
        source: Where they come from.
    """

    train: tuple[Array, Array]
    test: tuple[Array, Array]
    names: tuple[str, ...]
    source: str


def load_pictures() -> Pictures:
    """Return FashionMNIST from Debian's package or a folder of torchvision's; else digits.

    A folder of torchvision's is found in `data/FashionMNIST/raw`, or where FASHION_MNIST says.
    """
    for folder in _folders():
        if (folder / "t10k-labels-idx1-ubyte.gz").exists():
            train, test = (_read(folder, part) for part in _PARTS.values())
            return Pictures(train, test, CLOTHES, f"FashionMNIST in {folder}")
    return _digits()


def _folders() -> Iterator[Path]:
    if "FASHION_MNIST" in os.environ:
        yield Path(os.environ["FASHION_MNIST"])
    yield Path("/", _DEBIAN)
    yield Path(sys.prefix, _DEBIAN)
    yield Path("data", "FashionMNIST", "raw")


def _read(folder: Path, part: str) -> tuple[Array, Array]:
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return pixels.reshape(len(labels), -1).copy(), labels.astype(np.int64)


def _digits() -> Pictures:
    """The digits that scikit-learn ships, which are smaller and fewer."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels, labels = (found.data * 15).astype(np.uint8), found.target.astype(np.int64)
    return Pictures(
        (pixels[:1400], labels[:1400]),
        (pixels[1400:], labels[1400:]),
        DIGITS,
        "digits of scikit-learn, because FashionMNIST was not found",
    )
