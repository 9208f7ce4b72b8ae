"""Types of Arrow that few kernels know, as the plain types that all of them know.

Polars, DataFusion and others write views (`string_view`, `list_view` …), which hold the same
values as `string` and `list`; to sort, group or compare them is "not implemented" in Arrow. Nor
can it make an empty table with tensors that are permuted, as all are that it makes of NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

import numpy as np
import pyarrow as pa


def _test(name: str) -> Callable[[pa.DataType], bool]:
    """Return the test of that name, False for all types where Arrow is older than the type."""
    test: Callable[[pa.DataType], bool] = getattr(pa.types, name, lambda type_: False)
    return test


_is_string_view = _test("is_string_view")
_is_binary_view = _test("is_binary_view")
_is_list_view = _test("is_list_view")
_is_large_list_view = _test("is_large_list_view")
_is_run_end_encoded = _test("is_run_end_encoded")


def plain_type(type_: pa.DataType, dictionaries: bool = False) -> pa.DataType:
    """Return the type without views at any depth, and without permutations of tensors; with
    `dictionaries`, without these either."""

    def inner(field: pa.Field) -> pa.Field:
        return field.with_type(plain_type(field.type, dictionaries))

    if _is_string_view(type_):
        return pa.string()
    if _is_binary_view(type_):
        return pa.binary()
    if _is_run_end_encoded(type_):
        return plain_type(type_.value_type, dictionaries)
    if pa.types.is_dictionary(type_):
        values = plain_type(type_.value_type, dictionaries)
        # The codes of dictionaries of views cannot be looked up by Arrow.
        return values if dictionaries or values != type_.value_type else type_
    if pa.types.is_list(type_) or _is_list_view(type_):
        return pa.list_(inner(type_.value_field))
    if pa.types.is_large_list(type_) or _is_large_list_view(type_):
        return pa.large_list(inner(type_.value_field))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(inner(type_.value_field), type_.list_size)
    if pa.types.is_map(type_):
        return pa.map_(inner(type_.key_field), inner(type_.item_field), type_.keys_sorted)
    if pa.types.is_struct(type_):
        return pa.struct([inner(type_.field(number)) for number in range(type_.num_fields)])
    if is_permuted(type_):
        names = type_.dim_names
        return pa.fixed_shape_tensor(
            type_.value_type,
            [type_.shape[place] for place in type_.permutation],
            dim_names=names and [names[place] for place in type_.permutation],
        )
    return type_


def is_permuted(type_: pa.DataType) -> bool:
    """Tell whether Arrow says how tensors lie in memory, even if they lie in order."""
    return isinstance(type_, pa.FixedShapeTensorType) and type_.permutation is not None


def plain_schema(schema: pa.Schema, dictionaries: bool = False) -> pa.Schema:
    """Return the schema with the `plain_type` of each column."""
    fields = [field.with_type(plain_type(field.type, dictionaries)) for field in schema]
    return pa.schema(fields, schema.metadata)


def with_plain_types(table: pa.Table, dictionaries: bool = False) -> pa.Table:
    """Return the table with the `plain_type` of each column; itself if it has these already."""
    schema = plain_schema(table.schema, dictionaries)
    if all(map(_is_same, table.schema.types, schema.types)):
        return table
    columns = [
        column if _is_same(column.type, field.type) else _plain_column(column, field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _is_same(type_: pa.DataType, plain: pa.DataType) -> bool:
    # Tensors in order equal those of which Arrow says that they are.
    return bool(type_ == plain) and not is_permuted(type_)


def _plain_column(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(list(map(_plain, column.chunks, repeat(type_))), type_)


def _plain(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if _is_same(array.type, type_):
        return array
    if _is_list_view(array.type) or _is_large_list_view(array.type):
        return _lists_of_views(array, type_)
    if is_permuted(array.type):
        return _tensors_in_order(array, type_)
    if pa.types.is_dictionary(array.type):
        return _plain(array.dictionary, type_).take(array.indices)
    if pa.types.is_nested(array.type) or _is_run_end_encoded(array.type):
        # Arrow 26 casts views of lists to wrong lists, so that no cast may meet one inside.
        return pa.array(array.to_pylist(), type_)
    return array.cast(type_)


def _lists_of_views(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the lists with the values of each behind those of the one before."""
    missing = array.is_null()
    sizes = np.asarray(array.sizes.to_numpy(zero_copy_only=False))
    ends = np.cumsum(np.where(missing.to_numpy(zero_copy_only=False), 0, sizes))
    large = pa.types.is_large_list(type_)
    offsets = np.concatenate([[0], ends]).astype(np.int64 if large else np.int32)
    values = _plain(array.flatten(), type_.value_type)
    lists = pa.LargeListArray if large else pa.ListArray
    return lists.from_arrays(pa.array(offsets), values, type=type_, mask=missing)


def _tensors_in_order(array: pa.Array, type_: pa.FixedShapeTensorType) -> pa.Array:
    """Return the tensors with their numbers in the order of their dimensions."""
    storage, order = array.storage, array.type.permutation
    if order != sorted(order):
        size = storage.type.list_size
        places = np.arange(len(storage) * size).reshape(len(storage), *array.type.shape)
        places = places.transpose(0, *(1 + place for place in order)).reshape(-1)
        values = storage.values.slice(storage.offset * size, len(storage) * size)
        storage = pa.FixedSizeListArray.from_arrays(
            values.take(pa.array(places)), type=type_.storage_type, mask=storage.is_null()
        )
    return pa.ExtensionArray.from_storage(type_, storage)
