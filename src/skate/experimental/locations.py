"""Where values are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate._core.refs import ObjectRef
from skate.engine import installed_engine
from skate.engine.base import Engine

__all__ = ["get_local_object_locations", "get_object_locations"]


def get_object_locations(
    obj_refs: Sequence[ObjectRef[object]], timeout_ms: int = -1
) -> dict[ObjectRef[Any], dict[str, Any]]:
    """Look up where values are, without waiting for those that do not exist yet.

    Args:
        obj_refs: References to look up.
        timeout_ms: Milliseconds that a cluster may take to answer; a negative number means any.
            On one machine the answer is there at once.

    Returns:
        A dictionary for each reference: `node_ids`, the machines that have the value (none before
        it exists), `object_size` in bytes (None if not known) and `did_spill`, whether the value
        is on disk.

    Raises:
        RuntimeError: If there is no session, and so no value.
    """
    return _engine().locations(_checked(obj_refs), timeout_ms)


def get_local_object_locations(
    obj_refs: Sequence[ObjectRef[object]],
) -> dict[ObjectRef[Any], dict[str, Any]]:
    """Look up where values are as far as this process knows.

    Args:
        obj_refs: References to look up.

    Returns:
        What `get_object_locations` does.

    Raises:
        RuntimeError: If there is no session, and so no value.
    """
    return _engine().locations(_checked(obj_refs), -1)


def _engine() -> Engine:
    engine = installed_engine()
    if engine is None:
        raise RuntimeError("there is no session that could have values: call init() first")
    return engine


def _checked(obj_refs: object) -> list[ObjectRef[object]]:
    if isinstance(obj_refs, (list, tuple)) and all(type(ref) is ObjectRef for ref in obj_refs):
        return list(obj_refs)
    raise TypeError(f"obj_refs takes a list of ObjectRefs; got {obj_refs!r}")
