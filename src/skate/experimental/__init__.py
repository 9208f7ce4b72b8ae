"""What Ray keeps under `ray.experimental`: where values are, weights of TensorFlow networks, bars
of progress."""

from __future__ import annotations

from typing import Any

from skate.experimental.locations import get_local_object_locations, get_object_locations

__all__ = [
    "TensorFlowVariables",
    "get_local_object_locations",
    "get_object_locations",
    "tf_utils",
    "tqdm_ray",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'skate.experimental' has no attribute {name!r}")
    from importlib import import_module

    if name == "tqdm_ray":
        return import_module("skate.experimental.tqdm_ray")
    module = import_module("skate.experimental.tf_utils")
    return module if name == "tf_utils" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
