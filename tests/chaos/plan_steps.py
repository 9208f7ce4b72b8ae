"""Random datasets and random steps on them: what `tests.chaos.plans` makes plans of.

Tables are small and full of what is easily forgotten: no rows, missing values, NaN, both zeros,
empty strings, lists, dictionaries and tensors. Most steps fit the columns that they are drawn for;
those that do not must fail in all ways of running them.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skate import data
from skate.data.aggregate import AggregateFn, Count, Max, Sum
from skate.data.expressions import Expr, col, lit

NAN = float("nan")
NUMBERS = ("int64", "double")
SIMPLE = (*NUMBERS, "string", "bool")
JOINS = (
    "inner", "left_outer", "right_outer", "full_outer",
    "left_semi", "right_semi", "left_anti", "right_anti",
)  # fmt: skip

Row = dict[str, Any]
Columns = dict[str, str]
"""The names of columns, and their types as text."""


@dataclass(frozen=True)
class Step:
    """One operation of a plan.

    Args:
        name: What it does.
        apply: Gives the dataset after it.
        needs_order: Whether which rows come out depends on the order of those that go in.
        keeps_order: Whether the order of rows is promised after it.
    """

    name: str
    apply: Callable[[data.Dataset], data.Dataset]
    needs_order: bool = False
    keeps_order: bool = True


@dataclass(frozen=True)
class PlanMaker:
    """Draws tables, datasets and steps.

    Args:
        chance: Draws; the same one gives the same plan.
        folder: Where files of datasets are written.
        drawn: The names of what was drawn, in order: what a person needs to repeat it.
    """

    chance: random.Random
    folder: Path
    drawn: list[str] = field(default_factory=list)

    # -- datasets ---------------------------------------------------------------------------------

    def table(self, rows: int) -> pa.Table:
        """Draw a table of so many rows."""
        chance = self.chance
        columns: dict[str, Any] = {
            "a": self._some(rows, range(-3, 4), pa.int64()),
            "b": self._some(rows, [0.5, -1.25, NAN, 2.0, 0.0, -0.0], pa.float64()),
            "s": self._some(rows, ["x", "y", "zz", ""], pa.string()),
            "i": pa.array(range(rows), pa.int64()),
            "t": self._some(rows, [True, False], pa.bool_()),
        }
        if chance.random() < 0.3:
            columns["l"] = self._some(rows, [[], [1], [1, 1]], pa.list_(pa.int64()))
        if chance.random() < 0.2:
            columns["d"] = self._some(rows, ["p", "q"], pa.string()).dictionary_encode()
        if rows and chance.random() < 0.2:
            pairs = np.arange(rows * 2.0).reshape(rows, 2)
            columns["x"] = pa.FixedShapeTensorArray.from_numpy_ndarray(pairs)
        return pa.table(columns)

    def _some(self, rows: int, values: Any, kind: pa.DataType) -> pa.Array:
        chance = self.chance
        drawn = [None if chance.random() < 0.15 else chance.choice(values) for _ in range(rows)]
        return pa.array(drawn, kind)

    def source(self) -> data.Dataset:
        """Draw a dataset."""
        rows = self.chance.choice([0, 1, 5, 17, 40])
        table, parts = self.table(rows), self.chance.choice([1, 2, 3])
        self.drawn.append(f"{rows} rows in {parts}")
        if self.chance.random() < 0.6:
            return data.from_arrow(list(_slices(table, parts)))
        folder = tempfile.mkdtemp(dir=self.folder)
        group = self.chance.choice([3, 1000])
        for number, part in enumerate(_slices(table, parts)):
            pq.write_table(part, f"{folder}/{number}.parquet", row_group_size=group)
        self.drawn[-1] += f" files, groups of {group}"
        return data.read_parquet(folder)

    # -- expressions ------------------------------------------------------------------------------

    def condition(self, columns: Columns, depth: int = 0) -> Expr:
        """Draw what a filter keeps."""
        chance, numbers = self.chance, _of(columns, NUMBERS)
        if not numbers:
            return col(chance.choice(list(columns))).is_null()
        kind = chance.randrange(10)
        if kind < 4 and depth < 2:
            left, right = (self.condition(columns, depth + 1) for _ in range(2))
            return (~left, left & right, left & right, left | right)[kind]
        if kind == 4 and columns.get("s") == "string":
            return col("s") == chance.choice(["x", "", "zz"])
        left, value = col(chance.choice(numbers)), chance.choice([-1, 0, 1, 2, 0.5])
        sum_of_two = left + col(chance.choice(numbers))
        return chance.choice(
            [
                left.is_null(),
                left.is_in([0, 1, 2]),
                sum_of_two > value,
                left <= value,
                left != value,
            ]
        )

    def number(self, columns: Columns) -> Expr:
        """Draw what a new column has."""
        numbers = _of(columns, NUMBERS)
        if not numbers:
            return lit(1)
        one, other = (col(self.chance.choice(numbers)) for _ in range(2))
        made: list[Expr] = [one + 1, one * other, one - 2.5, one.abs(), one + other]
        return self.chance.choice(made)

    # -- steps ------------------------------------------------------------------------------------

    def step(self, columns: Columns, is_ordered: bool = True) -> Step:
        """Draw a step for a dataset with these columns, whose order may not be known."""
        makers: list[Callable[[Columns], Step]] = [
            *[self._filter] * 3, *[self._limit] * 2, *[self._sort] * 2,
            self._with_column, self._select, self._drop, self._rename, self._rows, self._batches,
            self._group, self._repartition, self._twice, self._join, self._side_by_side,
        ]  # fmt: skip
        step = self.chance.choice(makers)(columns)
        while step.needs_order and not is_ordered:
            step = self.chance.choice(makers)(columns)
        self.drawn.append(step.name)
        return step

    def _filter(self, columns: Columns) -> Step:
        condition = self.condition(columns)
        return Step(f"filter({condition})", lambda rows: rows.filter(expr=condition))

    def _limit(self, columns: Columns) -> Step:
        most = self.chance.choice([0, 1, 3, 7, 10])
        return Step(f"limit({most})", lambda rows: rows.limit(most), needs_order=True)

    def _sort(self, columns: Columns) -> Step:
        keys = self._keys(columns)
        down = [self.chance.random() < 0.5 for _ in keys]
        return Step(f"sort({keys}, {down})", lambda rows: rows.sort(keys, descending=down))

    def _with_column(self, columns: Columns) -> Step:
        name, made = self.chance.choice(["a", "n1", "n2"]), self.number(columns)
        return Step(f"with_column({name}, {made})", lambda rows: rows.with_column(name, made))

    def _select(self, columns: Columns) -> Step:
        names = self._sample(columns, 1, len(columns))
        return Step(f"select_columns({names})", lambda rows: rows.select_columns(names))

    def _drop(self, columns: Columns) -> Step:
        names = self._sample(columns, 0, len(columns) - 1)
        return Step(f"drop_columns({names})", lambda rows: rows.drop_columns(names))

    def _rename(self, columns: Columns) -> Step:
        names = {self.chance.choice(list(columns)): self.chance.choice("aqwbz")}
        return Step(f"rename_columns({names})", lambda rows: rows.rename_columns(names))

    def _rows(self, columns: Columns) -> Step:
        return self.chance.choice(
            [
                Step("map: one more column", lambda rows: rows.map(_marked)),
                Step("filter: every third of i less", lambda rows: rows.filter(_is_no_third)),
                Step("flat_map: odd i twice", lambda rows: rows.flat_map(_odd_twice)),
            ]
        )

    def _batches(self, columns: Columns) -> Step:
        size = self.chance.choice([None, 2, 7])
        return Step(
            f"map_batches of {size}",
            lambda rows: rows.map_batches(same, batch_format="pyarrow", batch_size=size),
        )

    def _group(self, columns: Columns) -> Step:
        keys, numbers = self._keys(columns), _of(columns, NUMBERS)
        wanted: list[AggregateFn] = [Count()]
        if numbers:
            wanted += [Sum(numbers[0], alias_name="S"), Max(numbers[-1], alias_name="M")]
        return Step(f"groupby({keys})", lambda rows: rows.groupby(keys).aggregate(*wanted))

    def _repartition(self, columns: Columns) -> Step:
        blocks = self.chance.choice([1, 2, 5])
        return Step(f"repartition({blocks})", lambda rows: rows.repartition(blocks))

    def _twice(self, columns: Columns) -> Step:
        return Step("union with itself", lambda rows: rows.union(rows))

    def _side_by_side(self, columns: Columns) -> Step:
        return Step("zip with itself", lambda rows: rows.zip(rows), needs_order=True)

    def _join(self, columns: Columns) -> Step:
        right, how = self.source(), self.chance.choice(JOINS)
        same_type = [name for name, kind in columns_of(right).items() if columns.get(name) == kind]
        keys = _of({name: columns[name] for name in same_type}, SIMPLE)
        if not keys:
            return self._filter(columns)
        key = (self.chance.choice(keys),)
        return Step(
            f"join({how}, {key})",
            lambda rows: rows.join(right, how, 2, on=key, left_suffix="_L", right_suffix="_R"),
            keeps_order=False,
        )

    def _keys(self, columns: Columns) -> list[str]:
        simple = (self.chance.random() < 0.9 and _of(columns, SIMPLE)) or list(columns)
        return self.chance.sample(simple, min(len(simple), self.chance.choice([1, 1, 2])))

    def _sample(self, columns: Columns, least: int, most: int) -> list[str]:
        return self.chance.sample(list(columns), self.chance.randint(least, most))


def columns_of(rows: data.Dataset) -> Columns:
    """Return the columns of a dataset; nothing if it has none."""
    schema = rows.schema()
    return {} if schema is None else dict(zip(schema.names, map(str, schema.types), strict=True))


def same(batch: Any) -> Any:
    """Return a batch as it is."""
    return batch


def _of(columns: Columns, kinds: tuple[str, ...]) -> list[str]:
    return [name for name, kind in columns.items() if kind in kinds]


def _slices(table: pa.Table, parts: int) -> Iterator[pa.Table]:
    ends = [number * len(table) // parts for number in range(parts + 1)]
    return (table.slice(a, b - a) for a, b in itertools.pairwise(ends))


def _marked(row: Row) -> Row:
    return {**row, "m": 1}


def _is_no_third(row: Row) -> bool:
    return row.get("i") is None or row["i"] % 3 != 0


def _odd_twice(row: Row) -> list[Row]:
    return [row, row] if (row.get("i") or 0) % 2 else []
