"""Rows for a table of Iceberg, in a schema that takes none of the table's promises away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa


def as_required(rows: pa.Table, schema: Any) -> pa.Table:
    """Say of the columns and fields which a table wants complete that they are: where its rows
    might lack one, pyiceberg would make it optional, for the whole table.

    Args:
        rows: What is to be written.
        schema: The schema of pyiceberg that the table has.

    Returns:
        The same rows.

    Raises:
        ValueError: If a value is missing where the table wants one.
    """
    columns = [column.chunks for column in rows.columns]
    fields = _fields(rows.schema, columns, schema.fields, "")
    return rows.cast(pa.schema(fields, rows.schema.metadata))


def _fields(
    fields: Iterable[pa.Field],
    columns: Sequence[Sequence[pa.Array]],
    there: Iterable[Any],
    parent: str,
) -> list[pa.Field]:
    known = {field.name: field for field in there}
    return [
        _field(field, chunks, known.get(field.name), f"{parent}{field.name}")
        for field, chunks in zip(fields, columns, strict=True)
    ]


def _field(field: pa.Field, chunks: Sequence[pa.Array], there: Any, path: str) -> pa.Field:
    """Return a field as the table has it; what is new to it is missing in its other rows."""
    if there is None:
        return field.with_nullable(True)
    missing = sum(chunk.null_count for chunk in chunks)
    if there.required and missing:
        raise ValueError(
            f"the table wants a value in each row of {path!r}, of which {missing} are missing: "
            "leave these rows out or fill them, or make the column optional, with the "
            "`update_schema` of the table"
        )
    type_ = _type(field.type, chunks, there.field_type, path)
    return field.with_type(type_).with_nullable(not there.required)


def _type(type_: pa.DataType, chunks: Sequence[pa.Array], there: Any, path: str) -> pa.DataType:
    """Return a type whose fields are as the table has them; types that differ are left to
    pyiceberg, which widens or refuses them."""
    present = [chunk.drop_null() for chunk in chunks]
    if pa.types.is_struct(type_) and there.is_struct:
        columns = [[chunk.field(n) for chunk in present] for n in range(type_.num_fields)]
        return pa.struct(_fields(type_, columns, there.fields, f"{path}."))
    if pa.types.is_map(type_) and hasattr(there, "value_field"):
        items = [_items(chunk) for chunk in present]
        item = _field(type_.item_field, items, there.value_field, f"{path}.value")
        return pa.map_(type_.key_field, item, type_.keys_sorted)
    if hasattr(there, "element_field") and (of_lists := _lists(type_)) is not None:
        values = [chunk.flatten() for chunk in present]
        element = _field(type_.value_field, values, there.element_field, f"{path}.element")
        return of_lists(element)
    return type_


def _items(maps: pa.MapArray) -> pa.Array:
    """Return the values of these maps alone, which may be a part of an array."""
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    return maps.items.slice(first, last - first)


def _lists(type_: pa.DataType) -> Any:
    """Return what makes lists of this kind of another element; None if these are no lists."""
    if pa.types.is_list(type_):
        return pa.list_
    if pa.types.is_large_list(type_):
        return pa.large_list
    if pa.types.is_fixed_size_list(type_):
        return lambda element: pa.list_(element, type_.list_size)
    return None
