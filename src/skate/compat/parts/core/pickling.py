"""Of `ray.cloudpickle`: what cloudpickle itself does not have."""

from __future__ import annotations

from typing import Any

import cloudpickle

from skate.util import inspect_serializability


def dumps_debug(obj: object, protocol: int | None = None, buffer_callback: Any = None) -> bytes:
    """Return the bytes of a value; where there are none, show what inside of it is in the way.

    Args:
        obj: The value.
        protocol: That of pickle to use; None for the latest.
        buffer_callback: Takes the buffers that are to stay outside, as `pickle.dumps` does.

    Raises:
        TypeError: If it cannot be pickled.
    """
    try:
        packed: bytes = cloudpickle.dumps(obj, protocol, buffer_callback)
    except Exception as error:
        inspect_serializability(obj)
        raise TypeError(f"{obj!r} cannot be pickled; see above what is in the way") from error
    return packed
