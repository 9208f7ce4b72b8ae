"""What Ray's `_system_config` says of things that exist here: spilling, and the memory monitor."""

from __future__ import annotations

import json
from typing import Any

from skate._core.argument_checks import mapping

_SPILLING = "object_spilling_config"
_TYPES = ("filesystem", "smart_open")  # the second is a store elsewhere: here, this machine's disk
_PARAMETERS = ("buffer_size", "directory_path", "uri")
_OF_MEMORY = ("memory_usage_threshold", "memory_monitor_refresh_ms")


def place_to_spill(system_config: object) -> str | None:
    """Return the folder to spill to, if it is given: Ray's way to say `spill_dir` until 2.50.

    Raises:
        ValueError: If the config of spilling is none that Ray knows.
    """
    spilling = mapping("_system_config", system_config).get(_SPILLING)
    if spilling is None:
        return None
    try:
        config = json.loads(spilling)
        kind, params = config.get("type", "filesystem"), config.get("params", {})
        wrong = (
            kind not in _TYPES
            or [name for name in params if name not in _PARAMETERS]
            or not isinstance(params.get("buffer_size", 0), int)
        )
    except (TypeError, ValueError, AttributeError):
        wrong = True
    if wrong:
        raise ValueError(
            f"_system_config[{_SPILLING!r}] takes JSON with `type` (one of {', '.join(_TYPES)}) "
            f"and `params` (any of {', '.join(_PARAMETERS)}, the first a number); "
            f"got {spilling!r}. "
            "init(spill_dir=...) says the same"
        )
    place = params.get("directory_path")
    return str(place[0] if isinstance(place, list) else place) if place else None


def of_memory_guard(system_config: Any) -> dict[str, Any] | None:
    """Return the settings of the memory monitor, if there are any."""
    given = system_config or {}
    return {name: given[name] for name in _OF_MEMORY if name in given} or None
