"""`ray._private.internal_api`: the home of `free` since Ray 1.0."""

from skate.compat.parts.internal import free

__all__ = ["free"]
