"""Joins: rows of two datasets whose keys are equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import Block, MissingColumnError, check_columns
from skate.data._arrow.compute import pc
from skate.data._arrow.schema import Schema
from skate.data._arrow.sorting import check_keys
from skate.data._execution.bundles import Bundle, BundleBuffer, even_bundles, table_of
from skate.data._execution.dividing import ByHash
from skate.data._execution.exchange import by_engine
from skate.data._execution.partitions import Divisions, Gathering, Side
from skate.data._expressions.steps import set_column

JOINS = {
    "inner": "inner",
    "left_outer": "left outer",
    "right_outer": "right outer",
    "full_outer": "full outer",
    "left_semi": "left semi",
    "right_semi": "right semi",
    "left_anti": "left anti",
    "right_anti": "right anti",
}


def check_same_keys(
    left: Schema | None, on: Sequence[str], right: Schema | None, right_on: Sequence[str]
) -> None:
    """Raise unless both datasets have the keys, with the same types."""
    for schema, keys in ((left, on), (right, right_on)):
        check_columns(keys, schema.names if schema is not None else [])
    assert left is not None
    assert right is not None
    for one, other in zip(on, right_on, strict=True):
        kinds = (left.base_schema.field(one).type, right.base_schema.field(other).type)
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"keys of a join have the same type; {one!r} is {kinds[0]} on the left and "
                f"{other!r} is {kinds[1]} on the right: cast one of them"
            )


class JoinedNames(NamedTuple):
    """What the columns of pairs of rows are called: the keys, and by its name those of a side."""

    keys: list[str]
    left: dict[str, str]
    right: dict[str, str]

    @property
    def all(self) -> list[str]:
        return [*self.left.values(), *self.right.values()]


@dataclass(frozen=True, eq=False)
class Join(Gathering):
    """Rows of two datasets whose keys are equal."""

    kind: str = "inner"
    on: tuple[str, ...] = ()
    right_on: tuple[str, ...] = ()
    left_suffix: str | None = None
    right_suffix: str | None = None
    blocks: int = 1

    def schema_of(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        left, right = self._comparable(*(schema.empty_table() for schema in inputs))
        if self._is_of_one_side():
            return (left if self.kind.startswith("left") else right).schema
        return self.assembled(left, right).schema

    def in_memory(self, inputs: Sequence[BundleBuffer]) -> Iterator[Bundle]:
        tables = [table_of(each.bundles) for each in inputs]
        return even_bundles(self.of_tables(tables), self.blocks)

    def divisions(self, sides: Sequence[Side], parts: int) -> Divisions:
        parts = max(parts, self.blocks)
        divisions = [
            [ByHash(range(parts), keys)] * len(side.groups)
            for keys, side in zip((self.on, self.right_on), sides, strict=True)
        ]
        return Divisions(divisions, [1] * parts)

    def of_tables(self, tables: Sequence[Block], part: int = 0) -> Block:
        return self.join(*tables)

    def finished(self, tables: Sequence[Block], part: int) -> Block:
        return by_engine(self, tables)

    def join(self, left: Block, right: Block) -> Block:
        """Join two tables. Only keys and row numbers go through Arrow's join: it knows few types
        of columns."""
        left, right = self._comparable(left, right)
        numbered = [
            table.select(list(keys)).append_column(mark, pa.array(np.arange(table.num_rows)))
            for table, keys, mark in ((left, self.on, "__l"), (right, self.right_on, "__r"))
        ]
        pairs = numbered[0].join(
            numbered[1], list(self.on), list(self.right_on), join_type=JOINS[self.kind]
        )
        if self._is_of_one_side():
            table, mark = (left, "__l") if self.kind.startswith("left") else (right, "__r")
            return table.take(pairs[mark].sort())
        pairs = pairs.sort_by([("__l", "ascending"), ("__r", "ascending")])
        return self.assembled(left.take(pairs["__l"]), right.take(pairs["__r"]))

    def _is_of_one_side(self) -> bool:
        return "semi" in self.kind or "anti" in self.kind

    def _comparable(self, left: Block, right: Block) -> tuple[Block, Block]:
        """Return both tables with keys of the same types."""
        left, right = _with_keys(left, self.on), self._with_keys_of_the_right(right)
        types = [
            common_type(one, left[one].type, other, right[other].type)
            for one, other in zip(self.on, self.right_on, strict=True)
        ]
        return _retyped(left, self.on, types), _retyped(right, self.right_on, types)

    def assembled(self, left: Block, right: Block) -> Block:
        """Return the columns of pairs of rows, of which one may be missing."""
        names = self.names(left.column_names, right.column_names)
        columns = {new: left[name] for name, new in names.left.items()}
        columns |= {new: right[name] for name, new in names.right.items()}
        for key, one, other in zip(names.keys, self.on, self.right_on, strict=True):
            columns[key] = pc.coalesce(left[one], right[other])
        return pa.table({name: columns[name] for name in names.all})

    def _with_keys_of_the_right(self, table: Block) -> Block:
        try:
            return _with_keys(table, self.right_on)
        except MissingColumnError as error:
            raise MissingColumnError(
                f"{error}. That is the dataset on the right of the join: right_on= says what its "
                "keys are called, where on= does not"
            ) from None

    def names(self, left: Sequence[str], right: Sequence[str]) -> JoinedNames:
        """Return what the columns of pairs are called.

        Keys stay where the side has them whose rows are all kept, by their name there. Of other
        names that both sides have, each gets its side's suffix.
        """
        if self.kind == "right_outer":
            left = [name for name in left if name not in self.on]
        else:
            right = [name for name in right if name not in self.right_on]
        both = set(left) & set(right)
        if both and (self.left_suffix or "") == (self.right_suffix or ""):
            raise ValueError(
                "Left and right columns suffixes cannot be both None, nor the same: both sides "
                f"have the columns {sorted(both)}, and nothing tells them apart; give left_suffix "
                "or right_suffix"
            )
        lefts = {name: name + (self.left_suffix or "") * (name in both) for name in left}
        rights = {name: name + (self.right_suffix or "") * (name in both) for name in right}
        names = JoinedNames(
            [rights[key] for key in self.right_on]
            if self.kind == "right_outer"
            else [lefts[key] for key in self.on],
            lefts,
            rights,
        )
        if len(set(names.all)) < len(names.all):
            raise ValueError(f"the join would have two columns of one name: {names.all}")
        return names


def _with_keys(table: Block, keys: Sequence[str]) -> Block:
    """Return the table, or, if it is empty and nothing is known of it, one that has the keys."""
    check_keys(keys, table)
    return table if table.num_columns else pa.table({key: pa.nulls(0) for key in keys})


def common_type(on: str, left: pa.DataType, right_on: str, right: pa.DataType) -> pa.DataType:
    """Find the type in which keys of both sides can be compared."""
    if left == right:
        return left
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (left, right)]
    schemas = [pa.schema([("key", kind)]) for kind in kinds]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("key").type
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        raise TypeError(
            f"keys of a join must be comparable; {on!r} is {left} on the left and {right_on!r} is "
            f"{right} on the right: cast one of them"
        ) from None


def _retyped(table: Block, keys: Sequence[str], types: Sequence[pa.DataType]) -> Block:
    for key, kind in zip(keys, types, strict=True):
        if table[key].type != kind:
            table = set_column(table, key, table[key].cast(kind))
    return table
