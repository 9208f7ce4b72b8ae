"""Columns of pandas' categories: values by their numbers in a dictionary, which each block has."""

from __future__ import annotations

import pyarrow as pa


def without_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values themselves of what pandas calls a categorical column."""
    is_dictionary = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_dictionary else column


def with_one_dictionary(table: pa.Table) -> pa.Table:
    """Give all chunks of a column one dictionary: Arrow groups no others."""
    if not any(map(pa.types.is_dictionary, table.schema.types)):
        return table
    try:
        return table.unify_dictionaries()
    except pa.ArrowInvalid:  # more values than the numbers can tell apart, or None is a value
        columns = [encoded_anew(column) for column in table.columns]
        return pa.table(columns, names=table.column_names, metadata=table.schema.metadata)


def encoded_anew(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give the column a new dictionary, if it has one."""
    if not pa.types.is_dictionary(column.type):
        return column
    return without_dictionary(column).dictionary_encode()
