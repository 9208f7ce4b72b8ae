"""The border that tables of files and of other programs cross before they are blocks.

Inside, a column of Python objects is pickles (`ObjectType`), which are unpickled whenever rows are
looked at. That is safe because only this session can have made them: the type is not registered
with Arrow, so that no file can bring it along. A file can only claim it, by a name in its schema.
Such claims are refused here, unless the user says that the file can be trusted.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from skate._core.consent import program_allows_pickle
from skate._core.optional_imports import ray_is_skate
from skate.data._arrow.plain_types import is_permuted, plain_type, with_plain_types
from skate.data._arrow.tensors import (
    OBJECT_NAME,
    RaggedTensorType,
    is_object,
    objects_of_pickles,
)
from skate.exceptions import UntrustedPickleError

_NAME, _PARAMETERS = b"ARROW:extension:name", b"ARROW:extension:metadata"
_MOST_VALUES = (1 << 63) - 1  # of a tensor; Arrow refuses shapes of more
_PICKLED = (OBJECT_NAME, "ray.data.arrow_pickled_object")
_FIXED = ("ray.data.arrow_tensor", "ray.data.arrow_tensor_v2")
_RAGGED = ("ray.data.arrow_variable_shaped_tensor",)


def allows_pickle(argument: bool, switch_of_ray: str = "") -> bool:
    """Return whether the user trusts the data: by the argument, or by the environment, where
    programs that `import ray` may set the variable that Ray has for it."""
    by_ray = ray_is_skate() and os.environ.get(switch_of_ray, "").lower() in ("1", "true")
    return argument or program_allows_pickle() or by_ray


def refused(what: str, instead: str = "") -> UntrustedPickleError:
    """Return the error for `what`, which names both ways to allow it, and a safe one if any."""
    return UntrustedPickleError(what, "holds pickled Python objects", instead)


def admitted(
    table: pa.Table, where: str, allow_pickle: bool, claims: pa.Schema | None = None
) -> pa.Table:
    """Return the table as a block: of types that all kernels know, without pickles of others.

    Args:
        table: What was read.
        where: Where it comes from, for the error.
        allow_pickle: Whether columns of pickles become columns of objects.
        claims: The schema of the file, where `table` may have lost what it says; that of `table`
            by default.

    Raises:
        UntrustedPickleError: If a column is of pickled objects that are not allowed.
    """
    said = {field.name: field for field in (table.schema if claims is None else claims)}
    for number, field in enumerate(table.schema):
        name = field.name
        claimed = said.get(name, field)
        kind = _extension_of(claimed)
        if not allow_pickle and any(each in _PICKLED for each in _extensions_in(claimed)):
            raise refused(
                f"column {name!r} of {where}",
                "; select_columns([...]) reads the columns without it",
            )
        column = _of_kind(table.column(number), kind, claimed)
        if column is not None:
            table = table.set_column(number, name, column)
    return with_plain_types(table)


def admitted_schema(schema: pa.Schema, allow_pickle: bool) -> pa.Schema:
    """Return the schema that `admitted` gives to tables of this one; nothing is refused."""
    fields = []
    for field in schema:
        kind = _extension_of(field)
        if kind in _PICKLED and not allow_pickle:
            fields.append(field)
            continue
        column = _of_kind(pa.chunked_array([], field.type), kind, field)
        type_ = plain_type(field.type) if column is None else column.type
        fields.append(field.with_type(type_) if column is None else pa.field(field.name, type_))
    return pa.schema(fields, schema.metadata)


def stored_schema(schema: pa.Schema, claims: pa.Schema) -> pa.Schema:
    """Return the schema by which Arrow reads a file that claims `claims`, so that `admitted` can
    make `schema` of it: what only skate can convert is as it is in the file."""
    fields = []
    said = {field.name: field for field in claims}
    for field in schema:
        claimed = said.get(field.name, field)
        if _extension_of(claimed) in (*_PICKLED, *_FIXED, *_RAGGED):
            field = field.with_type(plain_type(claimed.type))
        elif is_permuted(claimed.type):
            field = field.with_type(claimed.type)
        elif is_object(field.type):
            field = field.with_type(field.type.storage_type)
        fields.append(field)
    return pa.schema(fields, schema.metadata)


def _extension_of(field: pa.Field) -> str:
    """Return the name of the extension type, "" if there is none: of the type if Arrow knows it,
    else as the schema of a file says it."""
    if isinstance(field.type, pa.BaseExtensionType):
        # What is an object here was made by this session: Arrow cannot know the type otherwise.
        return "" if is_object(field.type) else str(field.type.extension_name)
    return str((field.metadata or {}).get(_NAME, b""), errors="replace")


def _extensions_in(field: pa.Field) -> Iterator[str]:
    """Yield the names of the extension types of a column and of all that is inside of it."""
    yield _extension_of(field)
    type_ = field.type
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    if pa.types.is_dictionary(type_):
        yield from _extensions_in(pa.field("values", type_.value_type))
    elif pa.types.is_nested(type_):
        for number in range(type_.num_fields):
            yield from _extensions_in(type_.field(number))


def _of_kind(column: pa.ChunkedArray, kind: str, claimed: pa.Field) -> pa.ChunkedArray | None:
    """Return the column of our own type for an extension type of this name; None for others."""
    type_ = getattr(column.type, "storage_type", column.type)
    chunks = [getattr(chunk, "storage", chunk) for chunk in column.chunks]
    if kind in _PICKLED:
        return objects_of_pickles(pa.chunked_array(chunks, type_))
    parameters = _parameters_of(claimed)
    if kind in _FIXED and _is_list(type_) and _is_shape(parameters):
        fixed = pa.fixed_shape_tensor(type_.value_type, parameters)
        if math.prod(parameters) and _are_numbers(type_.value_type):
            return pa.chunked_array([_fixed_tensors(chunk, fixed) for chunk in chunks], fixed)
    if kind in _RAGGED and pa.types.is_struct(type_) and isinstance(parameters, int):
        values = getattr(type_.field(0).type, "value_type", pa.null())
        if type_.num_fields == 2 and _are_numbers(values) and 0 < parameters < 32:
            ragged = RaggedTensorType(values, parameters)
            return pa.chunked_array([_ragged_tensors(chunk, ragged) for chunk in chunks], ragged)
    return None


def _parameters_of(field: pa.Field) -> Any:
    """Return what the extension type says beside its name, None if it is not JSON: versions of
    Ray pickled it."""
    if isinstance(field.type, pa.ExtensionType):
        text = field.type.__arrow_ext_serialize__()
    else:
        text = (field.metadata or {}).get(_PARAMETERS, b"")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _is_shape(value: object) -> bool:
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        return False
    return math.prod(value) <= _MOST_VALUES


def _are_numbers(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _fixed_tensors(lists: pa.Array, type_: pa.FixedShapeTensorType) -> pa.Array:
    return pa.ExtensionArray.from_storage(type_, lists.cast(type_.storage_type))


def _ragged_tensors(storage: pa.Array, type_: RaggedTensorType) -> pa.Array:
    """Return the tensors of structures of a list and its shape, which may be of other widths."""
    missing = storage.is_null()
    wanted = type_.storage_type
    parts = [
        storage.field(0).cast(wanted.field(0).type),
        _shapes(storage.field(1), wanted),
    ]
    return pa.ExtensionArray.from_storage(
        type_, pa.StructArray.from_arrays(parts, fields=list(wanted), mask=missing)
    )


def _shapes(shapes: pa.Array, wanted: pa.DataType) -> pa.Array:
    ndim = wanted.field(1).type.list_size
    rows = [[0] * ndim if shape is None else shape for shape in shapes.to_pylist()]
    if any(len(row) != ndim for row in rows):
        raise ValueError(f"a column of tensors with {ndim} dimensions has other shapes, too")
    return pa.array(rows, wanted.field(1).type)


def arrays_without_pickle(
    content: BinaryIO, where: str, allow_pickle: bool, **options: Any
) -> Any:
    """Return what `numpy.load` reads, with the error of skate for arrays of objects."""
    try:
        return np.load(content, allow_pickle=allow_pickle, **options)
    except ValueError as error:
        if not allow_pickle and "pickle" in str(error):
            raise refused(where) from None
        raise
