"""FashionMNIST as Debian's package `dataset-fashion-mnist` has it, or stand-ins of its shape."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np

_INSTALLED = "usr/share/datasets/fashion-mnist"
_PLACES = (Path("/", _INSTALLED), Path(sys.prefix, _INSTALLED))
Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def fashion_images(part: str, count: int) -> Arrays:
    """The first images and labels of the part "train" or "t10k"."""
    folder = next((place for place in _PLACES if place.exists()), None)
    if folder is None:
        random = np.random.default_rng(0)
        pixels = random.integers(0, 255, (count, 28, 28), dtype=np.uint8)
        return pixels, random.integers(0, 10, count)
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(16 + 784 * count), np.uint8, offset=16)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + count), np.uint8, offset=8)
    return pixels.reshape(-1, 28, 28).copy(), labels.copy()
