from __future__ import annotations

from typing import Any

import numpy as np
import torch


class ToTensor:
    def __call__(self, image: np.ndarray[Any, Any]) -> torch.Tensor:
        channels = image[None] if image.ndim == 2 else image.transpose(2, 0, 1)
        return torch.from_numpy(channels).float() / 255


class Normalize:
    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.mean, self.std = mean, std

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        mean, std = (torch.tensor(values)[:, None, None] for values in (self.mean, self.std))
        return (tensor - mean) / std


class Compose:
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value
