"""Times of NumPy and pandas, in the types that Arrow has for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

# Arrow's times are in seconds or finer, down to nanoseconds; days it has as dates.
_UNITS_OF_ARROW = {
    **dict.fromkeys(("Y", "M", "W", "h", "m", "s"), "s"),
    **dict.fromkeys(("ns", "ps", "fs", "as"), "ns"),
}
_MISSING = "NaTType"
_FINEST_FIRST = ("ns", "us", "ms", "s")


def in_units_of_arrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that Arrow has for this one: times in units that it knows, and numbers in
    the byte order of the machine."""
    dtype = dtype.newbyteorder("=")
    if dtype.kind not in "mM":
        return dtype
    unit, step = np.datetime_data(dtype)
    known = _UNITS_OF_ARROW.get(unit, unit)
    if dtype.kind == "m" and unit == "D":
        known = "s"  # there are no durations in days
    return dtype if (known, 1) == (unit, step) else np.dtype(f"{dtype.kind}8[{known}]")


def exact_type(first: object, values: Sequence[object]) -> pa.DataType | None:
    """Return the type in which times of pandas lose nothing; None: what Arrow sees.

    Args:
        first: The first value that is there; unless it is a time, this is no column of times.
        values: All values of the column.

    Raises:
        ValueError: If no type has all of them: some have a zone and others not, or Arrow could
            not read the zone.
    """
    if not isinstance(first, (datetime, timedelta)):
        return None
    kinds = set(map(type, values))
    missing = {kind for kind in kinds if kind.__name__ in ("NoneType", _MISSING)}
    times = [value for value in values if type(value) not in missing] if missing else values
    zone = _zone(first, times) if isinstance(first, datetime) else None
    exact = {kind for kind in kinds - missing if _has_unit(kind)}
    if not exact:
        return None
    units = {_unit(value) if type(value) in exact else "us" for value in times}
    unit = min(units, key=_FINEST_FIRST.index)
    return pa.duration(unit) if isinstance(first, timedelta) else pa.timestamp(unit, zone)


def _zone(first: datetime, times: Iterable[Any]) -> str | None:
    if len({getattr(time, "tzinfo", None) is None for time in times}) > 1:
        raise ValueError("some of these times have a zone, and others none")
    zone: str | None = pa.scalar(first).type.tz
    pa.scalar(0, pa.timestamp("s", zone)).as_py()  # which fails if it cannot be read back
    return zone


def _has_unit(kind: type) -> bool:
    """Return whether times of a class are each in a unit of their own; those of Python are in
    microseconds."""
    if issubclass(kind, (np.datetime64, np.timedelta64)):
        return True
    return kind.__module__.partition(".")[0] == "pandas" and hasattr(kind, "unit")


def _unit(time: Any) -> str:
    if not isinstance(time, np.generic):
        return str(time.unit)
    unit = np.datetime_data(in_units_of_arrow(time.dtype))[0]
    return "s" if unit == "D" else unit


def is_nat(value: object) -> bool:
    """Return whether it is the missing time of pandas, which Arrow takes for a time."""
    return type(value).__name__ == _MISSING
