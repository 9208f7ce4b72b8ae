"""What Ray keeps under `ray.experimental`: weights of TensorFlow networks."""

from __future__ import annotations

from typing import Any

__all__ = ["TensorFlowVariables", "tf_utils"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'skate.experimental' has no attribute {name!r}")
    from importlib import import_module

    module = import_module("skate.experimental.tf_utils")
    return module if name == "tf_utils" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
