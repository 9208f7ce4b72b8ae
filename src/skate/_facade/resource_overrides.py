"""RAY_OVERRIDE_RESOURCES: what a machine is said to have, whatever programs say."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

_VARIABLE = "RAY_OVERRIDE_RESOURCES"
_OWN_KEYWORDS = {"CPU": "num_cpus", "GPU": "num_gpus"}  # of `init`
_EXAMPLE = '{"CPU": 4, "custom": 1}'
_KEYWORDS = ("memory", "object_store_memory")


def overridden(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `init` was given, with what the environment says in its place.

    Args:
        given: `num_cpus`, `num_gpus`, `memory`, `object_store_memory` and `resources`.

    Raises:
        ValueError: If the variable is no object in JSON.
    """
    text = os.environ.get(_VARIABLE)
    if not text:
        return dict(given)
    try:
        said = dict(json.loads(text))
    except (TypeError, ValueError):
        raise ValueError(
            f"{_VARIABLE} takes an object in JSON, such as {_EXAMPLE}; got {text!r}"
        ) from None
    result = dict(given)
    for name in (*_OWN_KEYWORDS, *_KEYWORDS):
        if name in said:
            result[_OWN_KEYWORDS.get(name, name)] = said.pop(name)
    if said:
        result["resources"] = {**(given["resources"] or {}), **said}
    return result
