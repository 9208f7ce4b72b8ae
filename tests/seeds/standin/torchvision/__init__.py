"""What Ray's guides use of torchvision, with images of this machine instead of a download.

They are FashionMNIST's where Debian's `dataset-fashion-mnist` is installed, else random ones. Only
the first `STANDIN_IMAGES` are used, so that the guides run in seconds.
"""

from . import datasets, transforms

__all__ = ["datasets", "transforms"]
