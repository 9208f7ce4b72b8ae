"""Expressions as steps of a plan: what they do with the blocks that pass by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from skate.data._arrow.blocks import Block, Column
    from skate.data._expressions.expression import Expr


@dataclass(frozen=True)
class FilterStep:
    """Keep the rows for which an expression is true."""

    expression: Expr

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            yield block.filter(self._mask(block)) if block.column_names else block

    def _mask(self, block: Block) -> Column:
        mask = self.expression.evaluate(block)
        if not (pa.types.is_boolean(mask.type) or pa.types.is_null(mask.type)):
            raise TypeError(
                f"a filter takes an expression that is true or false; {self.expression} is "
                f"{mask.type}"
            )
        return pa.repeat(mask, block.num_rows) if isinstance(mask, pa.Scalar) else mask


@dataclass(frozen=True)
class WithColumns:
    """Replace and add columns by name, each of them computed by an expression."""

    columns: tuple[tuple[str, Expr], ...]

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            yield with_columns(block, self.columns)


def with_columns(block: Block, columns: Iterable[tuple[str, Expr]]) -> Block:
    """Replace and add columns, all of them computed from the block as it was."""
    made = [pair for name, each in columns for pair in each.columns_of(block, name)]
    for name, value in made:
        block = set_column(block, name, value)
    return block


def set_column(block: Block, name: str, value: Column | pa.Scalar) -> Block:
    """Replace a column of the block or, if it has none of that name, add one at the end."""
    if isinstance(value, pa.Scalar):
        rows = block.num_rows  # Arrow repeats a list once at least
        value = pa.repeat(value, rows) if rows else pa.nulls(0, value.type)
    if name in block.column_names:
        return block.set_column(block.column_names.index(name), name, value)
    return block.append_column(name, value)
