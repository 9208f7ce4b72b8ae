"""Stop criteria that a trial can check by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate._run.values import lookup


def reached(criteria: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether one of the metrics has come to its value."""
    for name, limit in criteria.items():
        value = lookup(result, name)
        if value is not None and value >= limit:
            return True
    return False
