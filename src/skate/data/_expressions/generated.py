"""Expressions that make values of their own: random numbers, row numbers, downloads."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import Block
from skate.data._arrow.compute import pc
from skate.data._expressions.expression import Expr, col


class RowPosition(NamedTuple):
    """Where a block stands: so many rows came before, in the execution of that number."""

    rows: int = 0
    execution: int = 0


_place: ContextVar[RowPosition] = ContextVar("place", default=RowPosition())  # noqa: B039


@contextmanager
def at(place: RowPosition) -> Iterator[None]:
    """Let what is evaluated inside belong to a block that stands at `place`."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


class _Counting(Expr):
    """Values of this type that depend on where a block stands."""

    def __init__(
        self,
        make: Callable[[int, RowPosition], Any],
        text: str,
        kind: pa.DataType,
        repeatable: bool = True,
    ) -> None:
        def evaluate(block: Block) -> object:
            return pa.array(make(block.num_rows, _place.get()), kind)

        arguments = {"type": kind}
        super().__init__(
            evaluate, text, (), arguments=arguments, counts_rows=True, repeatable=repeatable
        )


class MonotonicallyIncreasingIdExpr(_Counting):
    """The number of the row, from 0."""

    def __init__(self) -> None:
        def count(rows: int, place: RowPosition) -> Any:
            return np.arange(place.rows, place.rows + rows)

        super().__init__(count, "row_number()", pa.int64())


def monotonically_increasing_id() -> Expr:
    """Return an expression for the number of the row, from 0."""
    return MonotonicallyIncreasingIdExpr()


class RandomExpr(_Counting):
    """Random numbers from 0 to 1."""

    def __init__(self, seed: int | None = None, reseed_after_execution: bool = True) -> None:
        self.seed = seed
        self.reseed_after_execution = reseed_after_execution

        def draw(rows: int, place: RowPosition) -> Any:
            changing = seed is not None and reseed_after_execution
            start: Any = [seed, place.execution] if changing else seed
            numbers = np.random.PCG64(start)
            numbers.advance(place.rows)
            return np.random.Generator(numbers).random(rows)

        text = f"random({'' if seed is None else f'seed={seed}'})"
        super().__init__(draw, text, pa.float64(), seed is not None and not reseed_after_execution)


def random(*, seed: int | None = None, reseed_after_execution: bool = True) -> Expr:
    """Draw random numbers from 0 to 1. With a seed the same on each machine and for any blocks;
    other ones in each execution unless `reseed_after_execution` is False."""
    return RandomExpr(seed, reseed_after_execution)


class UUIDExpr(Expr):
    """A random UUID in each row, as text."""

    def __init__(self) -> None:
        def evaluate(block: Block) -> object:
            return pa.array([str(uuids.uuid4()) for _ in range(block.num_rows)], pa.string())

        super().__init__(evaluate, "uuid()", (), arguments={"type": pa.string()}, repeatable=False)


def uuid() -> Expr:
    """Draw a random UUID in each row, as text."""
    return UUIDExpr()


class DownloadExpr(Expr):
    """The bytes of the files that a column names."""

    def __init__(self, uri_column_name: str, filesystem: Any = None) -> None:
        self.uri_column_name = uri_column_name
        self.filesystem = filesystem
        text = f"download({uri_column_name!r})"
        arguments = {"type": pa.binary()}
        super().__init__(self._fetch, text, (), arguments=arguments, runs_python=True)

    def _fetch(self, block: Block) -> Any:
        uris = col(self.uri_column_name).evaluate(block).to_pylist()
        return pa.array([_content(uri, self.filesystem) for uri in uris], pa.binary())


def _content(uri: str | None, filesystem: Any) -> bytes | None:
    from skate.data._io.paths import resolve

    if uri is None:
        return None
    try:
        system, path = resolve(uri, filesystem)
        with system.open_input_stream(path, compression=None) as stream:
            return bytes(stream.read())
    except OSError:
        return None


def download(uri_column_name: str, *, filesystem: object = None) -> Expr:
    """Read the bytes of the files that a column names; None where that fails."""
    return DownloadExpr(uri_column_name, filesystem)


class UnnestExpr(Expr):
    """One column per key of a dictionary.

    Args:
        expr: The expression that gives dictionaries.
    """

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        super().__init__(expr._evaluate, f"unnest({expr})", (expr,))

    @property
    def name(self) -> str:
        return self._text

    def alias(self, name: str) -> Expr:
        raise TypeError(f"{self} cannot be aliased: it makes several columns, named by the keys")

    def to_pyarrow(self) -> pc.Expression:
        raise TypeError(f"{self} expands to multiple columns, which pyarrow has no expression for")

    def expand_projection(self, input_schema: pa.Schema | None) -> list[Expr]:
        """Return one expression per key.

        Args:
            input_schema: That of the blocks; None if it is not known.

        Raises:
            ValueError: If the keys are not known without the rows.
            TypeError: If they are no dictionaries.
        """
        from skate.data._expressions.result_types import type_of

        kind = type_of(self.expr, pa.schema([]) if input_schema is None else input_schema)
        if kind is None:
            raise ValueError(
                f"the keys of {self} have to be known when the plan is built: name a column of "
                "the schema, or use a function with @udf(return_dtype=DataType.struct(...))"
            )
        _check_struct(self, kind)
        fields = [field.name for field in kind]
        return [self.expr.struct.field_by_index(n).alias(name) for n, name in enumerate(fields)]

    def columns_of(self, block: Block, name: str) -> Iterable[tuple[str, Any]]:
        column = self.evaluate(block)
        _check_struct(self, column.type)
        names = [field.name for field in column.type]
        return [(key, pc.struct_field(column, number)) for number, key in enumerate(names)]


def _check_struct(expression: UnnestExpr, kind: pa.DataType) -> None:
    if not pa.types.is_struct(kind):
        raise TypeError(
            f"{expression} needs a struct-typed expression, which gives dictionaries; got {kind}"
        )


def unnest(expr: object) -> Expr:
    """Make a column for each key of a column of dictionaries, for `with_columns`."""
    if isinstance(expr, UnnestExpr):
        raise TypeError(f"unnest cannot be nested: {expr} makes several columns already")
    if not isinstance(expr, Expr):
        raise TypeError(f"unnest expects an expression that gives dictionaries; got {expr!r}")
    return UnnestExpr(expr)


class StarExpr(Expr):
    """All columns, which `with_columns` keeps anyway."""

    def __init__(self) -> None:
        super().__init__(lambda block: None, "star()", ())

    @property
    def name(self) -> str:
        return self._text

    def columns_of(self, block: Block, name: str) -> Iterable[tuple[str, Any]]:
        return []


def star() -> Expr:
    """Return an expression for all columns as they are."""
    return StarExpr()
