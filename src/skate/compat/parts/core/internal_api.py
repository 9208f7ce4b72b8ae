"""`ray._private.internal_api`: the home of `free` since Ray 1.0, and a table of the objects."""

from __future__ import annotations

from collections.abc import Iterable

from skate._core.argument_checks import wrong_value
from skate.compat.parts.core.internal import free
from skate.engine import current_engine

__all__ = ["free", "memory_summary"]

_BYTES_PER_UNIT = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SORT_KEYS = {"OBJECT_SIZE": "object_size", "REFERENCE_TYPE": "task_status", "PID": "object_id"}


def memory_summary(
    address: str | None = None,
    group_by: str = "NODE_ADDRESS",
    sort_by: str = "OBJECT_SIZE",
    units: str = "B",
    line_wrap: bool = True,
    stats_only: bool = False,
    num_entries: int | None = None,
) -> str:
    """Return a table of the objects that someone refers to, and their sum.

    Args:
        address: Without effect: the session of this program is asked.
        group_by: "NODE_ADDRESS" or "STACK_TRACE". There is one machine, and no traces are kept,
            so that either is one group.
        sort_by: "OBJECT_SIZE", the largest first; "REFERENCE_TYPE", by the state of what makes
            the value; or "PID": all are held by this program, so that they come as they were made.
        units: Of sizes: "B", "KB", "MB" or "GB".
        line_wrap: Without effect: no line is long enough to be wrapped.
        stats_only: Return the sum alone.
        num_entries: How many objects to show at the most.
    """
    key = _SORT_KEYS[_one_of("sort_by", sort_by, _SORT_KEYS)]
    scale = _BYTES_PER_UNIT[_one_of("units", units, _BYTES_PER_UNIT)]
    _one_of("group_by", group_by, ("NODE_ADDRESS", "STACK_TRACE"))
    rows = sorted(
        current_engine().state("objects"),
        key=lambda row: row[key],
        reverse=sort_by == "OBJECT_SIZE",
    )
    total = sum(row["object_size"] for row in rows)
    lines = [f"{len(rows)} objects, {_size(total, scale, units)}"]
    if not stats_only:
        lines.append(f"{'Object ref':58}{'Size':>16}  {'References':>10}  Status")
        lines += [
            f"{row['object_id']:58}{_size(row['object_size'], scale, units):>16}"
            f"  {row['reference_count']:>10}  {row['task_status']}{_place(row['spilled'])}"
            for row in rows[:num_entries]
        ]
    return "\n".join(lines) + "\n"


def _one_of(name: str, value: str, allowed: Iterable[str]) -> str:
    if value not in allowed:
        raise wrong_value(name, value, f"one of {', '.join(allowed)}")
    return value


def _size(size_bytes: int, scale: int, units: str) -> str:
    return f"{size_bytes / scale:.{0 if scale == 1 else 3}f} {units}"


def _place(spilled: bool) -> str:
    return ", spilled" if spilled else ""
