"""Arguments of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def accepted(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given arguments that the function takes."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(given)
    names = {parameter.name for parameter in parameters}
    return {name: value for name, value in given.items() if name in names}
