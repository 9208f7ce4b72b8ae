"""Random filters of a Parquet file with columns of all types, against the same filters in memory.

Readers of Parquet leave out groups of rows by their statistics, and compare by rules of their own:
what they leave out must be what the filter of a table leaves out.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skate import data
from skate.data.expressions import Expr, col, lit
from tests.chaos.plan_steps import PlanMaker

FILTERS = 10
"""How many filters each file is read with."""

NAN, INFINITE = float("nan"), float("inf")
DAY, NOON = date(2020, 1, 1), datetime(2020, 1, 1, 12)
NEW_YEAR = datetime(2020, 1, 1)
NEW_YEAR_UTC = datetime(2020, 1, 1, tzinfo=timezone.utc)

COLUMNS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "i8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "u8": (pa.uint8(), [0, 1, 200, 255]),
    "i64": (pa.int64(), [-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1]),
    "u64": (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    "f16": (pa.float16(), [0.0, 1.5]),
    "f32": (pa.float32(), [0.0, -0.0, 0.1, 1.5, NAN, INFINITE]),
    "f64": (pa.float64(), [0.0, -0.0, 0.1, -1.5, NAN, -INFINITE, 2.0**53]),
    "day": (pa.date32(), [DAY, date(1969, 12, 31), date(2030, 5, 5)]),
    "time": (pa.timestamp("us"), [NEW_YEAR, datetime(1960, 1, 1), NOON + timedelta(0, 0, 5)]),
    "zoned": (pa.timestamp("ms", "UTC"), [NEW_YEAR_UTC]),
    "span": (pa.duration("us"), [timedelta(seconds=1), timedelta(0)]),
    "text": (pa.string(), ["", "a", "ab", "é", "\U0001f600", "A"]),
    "bytes": (pa.binary(), [b"", b"a", b"\xff"]),
    "truth": (pa.bool_(), [True, False]),
    "decimal": (pa.decimal128(5, 2), [Decimal("1.25"), Decimal("-3.50"), Decimal("0.00")]),
}
"""Types of columns, and values that they may have."""

NUMBERS = [0, 1, -1, 255, 256, 2**53, 2**63, 2**70, 0.1, 1.5, -0.0, NAN]
VALUES: dict[str, Sequence[Any]] = {
    "day": [DAY, NEW_YEAR],
    "time": [NEW_YEAR, DAY],
    "zoned": [NEW_YEAR_UTC],
    "span": [timedelta(0)],
    "text": ["", "a", "é", "b"],
    "bytes": [b"a"],
    "truth": [True, False],
    "decimal": [Decimal("1.25"), Decimal("1.2500"), 1, 1.25],
}
"""What the columns that are no numbers are compared with; it may be of another type."""


def check_filters(make: PlanMaker) -> None:
    """Raise if a random filter finds other rows in a file than in memory."""
    chance = make.chance
    table, group = _table(chance, chance.choice([1, 2, 5, 20])), chance.choice([1, 3, 100])
    path = tempfile.mkdtemp(dir=make.folder)
    pq.write_table(table, f"{path}/rows.parquet", row_group_size=group)
    for _ in range(FILTERS):
        try:
            condition = _condition(chance)
        except TypeError:  # no type has all of the values
            continue
        make.drawn[:] = [f"{len(table)} rows, groups of {group}", f"filter({condition})"]
        in_memory = _found(data.from_arrow(table), condition)
        if in_memory is None:  # statistics may spare a file the comparison that fails
            continue
        in_file = _found(data.read_parquet(path), condition)
        assert in_file == in_memory, f"in the file: {in_file}\nin memory:   {in_memory}"


def _table(chance: random.Random, rows: int) -> pa.Table:
    """Draw a table of so many rows; half of them have one value and None in each column."""
    is_constant = chance.random() < 0.5
    columns: dict[str, Any] = {"row": range(rows)}
    for name, (kind, values) in COLUMNS.items():
        pool = [chance.choice(values)] if is_constant else values
        drawn = [None if chance.random() < 0.2 else chance.choice(pool) for _ in range(rows)]
        columns[name] = pa.array(drawn, kind)
    return pa.table(columns)


def _condition(chance: random.Random, depth: int = 0) -> Expr:
    name = chance.choice(list(COLUMNS))
    column, values = col(name), VALUES.get(name, NUMBERS)
    value, kind = chance.choice(values), chance.randrange(15)
    if kind < 3 and depth < 2:
        left, right = (_condition(chance, depth + 1) for _ in range(2))
        return (left & right, left | right, ~left)[kind]
    one = chance.sample(values, 1)
    two = chance.sample(values, min(2, len(values)))
    conditions: list[Callable[[], Expr]] = [
        lambda: column.is_null(),
        lambda: column.is_not_null(),
        lambda: column.is_in(two),
        lambda: column.not_in(one),
        lambda: column.not_in([*one, None]),
        lambda: column == col(chance.choice(list(COLUMNS))),
        lambda: column == value,
        lambda: column != value,
        lambda: column < value,
        lambda: column >= value,
        lambda: lit(value) < column,
    ]
    return chance.choice(conditions)()


def _found(rows: data.Dataset, condition: Expr) -> list[int] | None:
    """Return the numbers of the rows that the filter keeps; None if it cannot compare them."""
    try:
        return [row["row"] for row in rows.filter(expr=condition).take_all()]
    except Exception:
        return None
