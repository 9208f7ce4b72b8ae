"""Expressions that make values of their own: random numbers, row numbers, downloads."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data._arrow.blocks import Block
from skate.data._expressions.expression import Expr, col, set_column


class RowPosition(NamedTuple):
    """Where a block stands: so many rows came before, in the execution of that number."""

    rows: int = 0
    execution: int = 0


_place: ContextVar[RowPosition] = ContextVar("place", default=RowPosition())  # noqa: B039


@contextmanager
def at(place: RowPosition) -> Iterator[None]:
    """What is evaluated inside belongs to a block that stands there."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def monotonically_increasing_id() -> Expr:
    """The number of the row, from 0."""

    def count(rows: int, place: RowPosition) -> Any:
        return np.arange(place.rows, place.rows + rows)

    return _counting(count, "row_number()")


def random(*, seed: int | None = None, reseed_after_execution: bool = True) -> Expr:
    """Random numbers from 0 to 1. With a seed the same on each machine and for any blocks; other
    ones in each execution unless `reseed_after_execution` is False."""

    def draw(rows: int, place: RowPosition) -> Any:
        changing = seed is not None and reseed_after_execution
        start: Any = [seed, place.execution] if changing else seed
        numbers = np.random.PCG64(start)
        numbers.advance(place.rows)
        return np.random.Generator(numbers).random(rows)

    text = f"random({'' if seed is None else f'seed={seed}'})"
    return _counting(draw, text, repeatable=seed is not None and not reseed_after_execution)


def _counting(make: Callable[[int, RowPosition], Any], text: str, repeatable: bool = True) -> Expr:
    def evaluate(block: Block) -> object:
        return pa.array(make(block.num_rows, _place.get()))

    return Expr(evaluate, text, (), counts_rows=True, repeatable=repeatable)


def uuid() -> Expr:
    """A random UUID in each row, as text."""

    def evaluate(block: Block) -> object:
        return pa.array([str(uuids.uuid4()) for _ in range(block.num_rows)])

    return Expr(evaluate, "uuid()", (), repeatable=False)


def download(uri_column_name: str, *, filesystem: Any = None) -> Expr:
    """The bytes of the files that a column names; None where that fails."""
    from skate.data._io.paths import resolve

    def fetch(uri: str | None) -> bytes | None:
        if uri is None:
            return None
        try:
            system, path = resolve(uri, filesystem)
            with system.open_input_stream(path, compression=None) as stream:
                return bytes(stream.read())
        except OSError:
            return None

    def evaluate(block: Block) -> Any:
        uris = col(uri_column_name).evaluate(block).to_pylist()
        return pa.array([fetch(uri) for uri in uris], pa.binary())

    return Expr(evaluate, f"download({uri_column_name!r})", (), runs_python=True)


class Unnest(Expr):
    """One column per key of a dictionary."""

    def __init__(self, inner: Expr) -> None:
        super().__init__(inner._evaluate, f"unnest({inner})", (inner,))

    @property
    def name(self) -> str:
        return self._text

    def alias(self, name: str) -> Expr:
        raise TypeError(f"{self} makes several columns, named by the keys: it has no alias")

    def added_to(self, block: Block, name: str) -> Block:
        column = self.evaluate(block)
        if not pa.types.is_struct(column.type):
            raise TypeError(f"{self} needs a column of dictionaries; got {column.type}")
        for number, field in enumerate(column.type):
            block = set_column(block, field.name, pc.struct_field(column, number))
        return block


def unnest(expr: Any) -> Expr:
    """A column for each key of a column of dictionaries, for `with_columns`."""
    if not isinstance(expr, Expr) or isinstance(expr, Unnest):
        raise TypeError(f"unnest takes an expression that gives dictionaries; got {expr!r}")
    return Unnest(expr)


class Star(Expr):
    """All columns, which `with_columns` keeps anyway."""

    def __init__(self) -> None:
        super().__init__(lambda block: None, "star()", ())

    @property
    def name(self) -> str:
        return self._text

    def added_to(self, block: Block, name: str) -> Block:
        return block


def star() -> Expr:
    """All columns as they are."""
    return Star()
