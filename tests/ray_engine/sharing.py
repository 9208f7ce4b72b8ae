"""One Ray for many tests: it takes seconds to start."""

from __future__ import annotations

import logging
from typing import Any

_shared: dict[str, Any] | None = None


def share(**arguments: Any) -> None:
    """skate on a Ray that was started with these arguments, perhaps for an earlier test."""
    global _shared
    import ray

    import skate

    arguments.pop("preload", None)  # Ray's workers import what they need
    if not ray.is_initialized() or _shared != arguments:
        end()
        quiet = {"include_dashboard": False, "logging_level": logging.ERROR}
        ray.init("local", **quiet, **{"log_to_driver": False, **arguments})
        _shared = arguments
    skate.init(engine="ray")


def end() -> None:
    """No Ray runs in this process any more."""
    global _shared
    import ray

    ray.shutdown()
    _shared = None


def is_active() -> bool:
    """Whether a Ray is kept for the next tests."""
    return _shared is not None
