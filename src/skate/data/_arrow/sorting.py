"""The order of rows by columns: None comes last, NaN before it; equal rows keep their order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from skate.data._arrow.blocks import Block, check_columns
from skate.data._arrow.compute import pc
from skate.data._arrow.dictionaries import without_dictionary
from skate.data._arrow.tensors import type_text

Keys = Sequence[tuple[str, str]]  # columns, each "ascending" or "descending"


def sort_table(table: Block, keys: Keys) -> Block:
    """Return the rows in their order."""
    check_keys([name for name, _ in keys], table)
    if not table.num_rows:
        return table
    table = table.combine_chunks()
    return table.take(sorted_indices(table, keys))


def sorted_indices(table: Block, keys: Keys) -> pa.Array:
    """Return the numbers of the rows in their order.

    Raises:
        TypeError: If values of a key have no order.
    """
    names = [name for name, _ in keys]
    try:
        if len(keys) == 1:
            column, (_, direction) = table[names[0]], keys[0]
            # One chunk is sorted faster; more than 2 GB of text stay in several.
            column = column.chunk(0) if column.num_chunks == 1 else column
            return pc.sort_indices(column, sort_keys=[("", direction)])
        # Arrow sorts by several columns only if none is a dictionary.
        columns = [without_dictionary(table[name]) for name in names]
        return pc.sort_indices(pa.table(columns, names=names), sort_keys=keys)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = ", ".join(f"{name!r} is {type_text(table[name].type)}" for name in names)
        raise TypeError(
            f"cannot order rows by these columns: {kinds}; numbers, text and dates have an order"
        ) from None


def check_keys(keys: Sequence[str], block: Block) -> None:
    """Raise for keys that are no columns; an empty block without any could have them."""
    if block.num_columns or block.num_rows:
        check_columns(keys, block.column_names)


def taken(table: Block, order: pa.Array) -> Block:
    """Return the rows in that order. Arrow takes from one chunk much faster than from many."""
    return table.combine_chunks().take(pa.array(order))
