"""`ray.air._internal.util`: a free port, and errors without the frames of a library."""

from __future__ import annotations

import copy

from skate.compat.parts.core.network_utils import find_free_port as find_free_port


class StartTraceback(Exception):  # noqa: N818 - as Ray calls it
    """Raised from another error, to say that what is above is of no interest."""


def skip_exceptions(exc: BaseException | None) -> BaseException | None:
    """Copy an error, and what caused it, without each `StartTraceback` in between."""
    if exc is None or isinstance(exc, StartTraceback):
        return None if exc is None else skip_exceptions(exc.__cause__)
    try:
        own = copy.copy(exc).with_traceback(exc.__traceback__)
    except Exception:  # it asks for more than its arguments
        own = exc
    own.__cause__ = skip_exceptions(exc.__cause__)
    return own


def exception_cause(exc: BaseException | None) -> BaseException | None:
    """Return what an error was raised from."""
    return None if exc is None else exc.__cause__
