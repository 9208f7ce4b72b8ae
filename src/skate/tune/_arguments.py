"""Arguments of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping


def accepted(function: Callable[..., object], given: Mapping[str, object]) -> dict[str, object]:
    """Pick those of the given arguments that the function takes."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(given)
    names = {parameter.name for parameter in parameters}
    return {name: value for name, value in given.items() if name in names}
