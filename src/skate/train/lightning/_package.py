"""Which of its two packages Lightning comes from: both have classes of their own."""

from __future__ import annotations

import sys
from typing import Any

from skate._core.optional_imports import is_installed, try_import


def lightning_module(name: str = "") -> Any:
    """Import a module of `pytorch_lightning`, for programs that have imported only that or have
    only that; else of `lightning.pytorch`."""
    imported = [
        package for package in ("lightning", "pytorch_lightning") if package in sys.modules
    ]
    alone = imported == ["pytorch_lightning"] or not is_installed("lightning")
    package = "pytorch_lightning" if alone else "lightning.pytorch"
    return try_import(f"{package}.{name}" if name else package, "lightning")
