"""`ray.internal`: objects are freed with their last reference, so there is nothing to free."""

from __future__ import annotations

__all__ = ["free"]


def free(object_refs: object, local_only: bool = False) -> None:
    """Take a hint that the values are not needed any more; they go with their last reference."""
