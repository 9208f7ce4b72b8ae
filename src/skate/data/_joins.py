"""Joins: rows of two datasets whose keys are equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data import _plan as plan
from skate.data._blocks import Block, check_columns
from skate.data._bundles import Bundle, bundle_of, even_bundles, table_of
from skate.data._context import DataContext
from skate.data._exchange import Streams, check_keys, collect, dealt
from skate.data._hashing import hashed
from skate.data._schema import Schema

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


@dataclass(frozen=True, eq=False)
class Join(plan.Exchange):
    """Rows of two datasets whose keys are equal."""

    kind: str = "inner"
    on: tuple[str, ...] = ()
    right_on: tuple[str, ...] = ()
    left_suffix: str | None = None
    right_suffix: str | None = None
    blocks: int = 1

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return self._joined(streams, context)

    def _joined(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        left, right = (collect(stream, context) for stream in streams)
        size = left.size + right.size
        if size <= context.sort_memory_bytes:
            table = self.join(table_of(left.bundles), table_of(right.bundles))
            yield from even_bundles(table, self.blocks)
            return
        count = max(self.blocks, 2 * size // context.sort_memory_bytes + 2)
        lefts = dealt(left, lambda block, n: hashed(block, self.on, n), count)
        rights = dealt(right, lambda block, n: hashed(block, self.right_on, n), count)
        for one, other in zip(lefts, rights, strict=True):
            yield bundle_of(self.join(one, other))

    def join(self, left: Block, right: Block) -> Block:
        """Only keys and row numbers go through Arrow's join: it knows few types of columns."""
        left, right = _with_keys(left, self.on), _with_keys(right, self.right_on)
        left_keys = _typed_keys(left, self.on, right, self.right_on)
        right_keys = _typed_keys(right, self.right_on, left, self.on)
        numbered = [
            keys.append_column(mark, pa.array(np.arange(keys.num_rows)))
            for keys, mark in ((left_keys, "__l"), (right_keys, "__r"))
        ]
        pairs = numbered[0].join(
            numbered[1], list(self.on), list(self.right_on), join_type=JOINS[self.kind]
        )
        if "semi" in self.kind or "anti" in self.kind:
            table, mark = (left, "__l") if self.kind.startswith("left") else (right, "__r")
            return table.take(pairs[mark].sort())
        pairs = pairs.sort_by([("__l", "ascending"), ("__r", "ascending")])
        return self._assembled(left.take(pairs["__l"]), right.take(pairs["__r"]))

    def _assembled(self, left: Block, right: Block) -> Block:
        columns: dict[str, Any] = {}
        for key, other in zip(self.on, self.right_on, strict=True):
            columns[key] = pc.coalesce(left[key], right[other].cast(left[key].type))
        lefts = [name for name in left.column_names if name not in self.on]
        rights = [name for name in right.column_names if name not in self.right_on]
        both = set(lefts) & set(rights)
        if both and (self.left_suffix or "") == (self.right_suffix or ""):
            raise ValueError(
                f"both sides have the columns {sorted(both)}; give left_suffix or right_suffix"
            )
        for name in lefts:
            columns[name + (self.left_suffix or "") if name in both else name] = left[name]
        for name in rights:
            columns[name + (self.right_suffix or "") if name in both else name] = right[name]
        return pa.table(columns)


def _with_keys(table: Block, keys: Sequence[str]) -> Block:
    """The table, or, if it is empty and nothing is known of it, one that has the keys."""
    check_keys(keys, table)
    return table if table.num_columns else pa.table({key: pa.nulls(0) for key in keys})


def _typed_keys(table: Block, keys: Sequence[str], other: Block, others: Sequence[str]) -> Block:
    """The keys; a column of None alone has the type of its counterpart."""
    columns = [table[key] for key in keys]
    types = [other[key].type for key in others]
    pairs = zip(columns, types, strict=True)
    typed = [c.cast(t) if pa.types.is_null(c.type) else c for c, t in pairs]
    return pa.table(typed, names=list(keys))
