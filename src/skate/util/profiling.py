"""Names for spans of time, on the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from skate._core.argument_checks import wrong_type
from skate.engine import current_engine

_PLAIN = (str, int, float, bool, type(None))


def profile(
    name: str, extra_data: Mapping[str, str | int | float | bool | None] | None = None
) -> AbstractContextManager[None]:
    """Put the time of a block on the timeline, in the row of its process.

    Args:
        name: What the timeline calls it.
        extra_data: What else it says of it, by name: strings and numbers.

    Returns:
        A context manager around the block.

    Raises:
        TypeError: If `name` is no string, or `extra_data` has other values.

    Example:
        >>> with skate.init(num_cpus=1):
        ...     with skate.util.profile("reading", {"rows": 10}):
        ...         pass
        ...     [event["name"] for event in skate.timeline() if event["ph"] == "X"]
        ['reading']
    """
    if not isinstance(name, str):
        raise wrong_type("name", name, "a string")
    extra: Any = {} if extra_data is None else extra_data
    if not isinstance(extra, Mapping) or not all(
        isinstance(key, str) and isinstance(value, _PLAIN) for key, value in extra.items()
    ):
        raise wrong_type("extra_data", extra_data, "a dictionary of strings and numbers")
    return current_engine().profile(name, dict(extra))
