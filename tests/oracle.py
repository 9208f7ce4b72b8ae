"""Ray in the place of skate, to check what the tests expect against the original.

Run `SKATE_ORACLE=ray pytest tests/contract`.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import Any

ACTIVE = os.environ.get("SKATE_ORACLE") == "ray"

MODULES = (
    "",
    ".actor",
    ".exceptions",
    ".runtime_context",
    ".runtime_env",
    ".util",
    ".util.placement_group",
    ".util.scheduling_strategies",
)

_shared: dict[str, Any] | None = None


def pretend() -> None:
    """Make `import skate` mean Ray."""
    for name in MODULES:
        sys.modules["skate" + name] = importlib.import_module("ray" + name)


def ship_by_value(modules: set[types.ModuleType]) -> None:
    """Send test code itself to the workers: there, `import skate` would not mean Ray."""
    from ray import cloudpickle

    import tests.support

    for module in modules | {tests.support}:
        cloudpickle.register_pickle_by_value(module)


def init(**arguments: Any) -> Any:
    """A Ray of its own for the test that calls this."""
    global _shared
    import ray

    ray.shutdown()
    _shared = None
    return ray.init(include_dashboard=False, **arguments)


def share(**arguments: Any) -> None:
    """Ray takes seconds to start: tests with equal arguments share one."""
    global _shared
    import ray

    if ray.is_initialized() and _shared == arguments:
        return
    init(**{"log_to_driver": False, **arguments})
    _shared = arguments
