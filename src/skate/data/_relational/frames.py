"""A lazy frame of Polars, and the Arrow table that will come of it.

Columns that Polars does not carry stay in the table that they came in (`Held`). The frame has the
numbers of their rows instead, and they are taken by them at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from skate.data._arrow.blocks import Block, concat
from skate.data._relational.carried import is_carried

if TYPE_CHECKING:
    import polars

_numbers = count()


class Held(NamedTuple):
    """A column that stayed behind, and the column of the frame that numbers its rows."""

    values: pa.ChunkedArray
    rows: str


@dataclass(frozen=True)
class Frame:
    """Rows to come: `schema` says what Arrow is to see, `blocks` in how many blocks."""

    lazy: polars.LazyFrame
    schema: pa.Schema
    held: Mapping[str, Held] = field(default_factory=dict)
    blocks: int = 1

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def carries(self, name: str) -> bool:
        return name in self.schema.names and name not in self.held

    def selected(self, schema: pa.Schema) -> Frame:
        """Return the frame with the columns of the schema only."""
        held = {name: self.held[name] for name in schema.names if name in self.held}
        own = [name for name in schema.names if name not in held]
        rows = dict.fromkeys(column.rows for column in held.values())
        return replace(self, lazy=self.lazy.select(*own, *rows), schema=schema, held=held)

    def renamed(self, schema: pa.Schema) -> Frame:
        """Return the frame with the names of the schema, in their order."""
        changes = dict(zip(self.names, schema.names, strict=True))
        own = {old: new for old, new in changes.items() if old not in self.held and old != new}
        held = {changes[name]: column for name, column in self.held.items()}
        return replace(self, lazy=self.lazy.rename(own), schema=schema, held=held)

    def table(self) -> Block:
        """Compute the rows."""
        return self._as_arrow(self.selected(self.schema).lazy.collect(engine="streaming"))

    def tables(self, most_bytes: int) -> Iterator[Block]:
        """Compute the rows bit by bit, in tables of about `most_bytes`."""
        waiting: list[Block] = []
        size = 0
        for frame in self.selected(self.schema).lazy.collect_batches(engine="streaming"):
            waiting.append(self._as_arrow(frame))
            size += waiting[-1].nbytes
            if size >= most_bytes:
                yield concat(waiting)
                waiting, size = [], 0
        yield concat(waiting) if waiting else self.schema.empty_table()

    def _as_arrow(self, frame: polars.DataFrame) -> Block:
        import polars

        table = frame.to_arrow(compat_level=polars.CompatLevel.oldest())
        columns = []
        for wanted in self.schema:
            if wanted.name in self.held:
                values, rows = self.held[wanted.name]
                columns.append(values.take(table[rows]))
            else:
                column = table[wanted.name]
                columns.append(column if column.type == wanted.type else column.cast(wanted.type))
        return pa.Table.from_arrays(columns, schema=self.schema)


def frame_of(table: Block, blocks: int = 1) -> Frame:
    """Return the rows of a table, whose memory the frame shares."""
    import polars

    own = [column.name for column in table.schema if is_carried(column.type)]
    frame = polars.from_arrow(table.select(own), rechunk=False)
    assert isinstance(frame, polars.DataFrame)
    rest = [name for name in table.column_names if name not in own]
    if not rest:
        return Frame(frame.lazy(), table.schema, blocks=blocks)
    rows = f"\x1frows{next(_numbers)}"
    numbers = polars.int_range(table.num_rows, dtype=polars.Int64, eager=True).alias(rows)
    held = {name: Held(table[name], rows) for name in rest}
    return Frame(frame.with_columns(numbers).lazy(), table.schema, held, blocks)
