"""tf.train.Example, as columns and as bytes, without TensorFlow.

An Example is a protocol buffer: features { map<string, Feature> }, where a Feature is one of a
list of bytes (field 1), floats (field 2) or integers (field 3), and may be empty.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate._core.protocol_buffers import (
    NO_BYTES,
    field,
    fields_of,
    number_field,
    read_varint,
    signed,
    varint,
)
from skate.data._arrow.blocks import Block
from skate.data._arrow.tensors import column_to_rows, is_tensor, type_text
from skate.data._arrow.type_kinds import is_kind

_KINDS = {1: "bytes", 2: "float", 3: "int"}  # by the field of a Feature
_FIELDS = {kind: number for number, kind in _KINDS.items()}
_ARROW = {"bytes": pa.binary(), "float": pa.float32(), "int": pa.int64()}
_SCHEMA_KINDS = {1: "bytes", 2: "int", 3: "float"}  # by the enum of a schema of TensorFlow
_TENSOR_KINDS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "int64": 9,
    "bool": 10, "uint16": 17, "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip


def kinds_of_schema(tf_schema: Any) -> dict[str, str] | None:
    """Return what each feature holds (bytes, float, int), by a schema of tensorflow_metadata.

    Args:
        tf_schema: The schema; None if there is none.

    Raises:
        TypeError: If it is no such schema.
        ValueError: If a feature is of another kind.
    """
    if tf_schema is None:
        return None
    if not hasattr(tf_schema, "feature"):
        raise TypeError(
            f"tf_schema takes a Schema of tensorflow_metadata; got {type(tf_schema).__name__}"
        )
    kinds = {feature.name: _SCHEMA_KINDS.get(feature.type, "") for feature in tf_schema.feature}
    for name, kind in kinds.items():
        if not kind:
            raise ValueError(f"tf_schema: the type of {name!r} is none of BYTES, INT and FLOAT")
    return kinds


def _check_names(names: Sequence[str], kinds: Mapping[str, str]) -> None:
    extra = [name for name in names if name not in kinds]
    if extra:
        raise ValueError(
            f"Found extra unexpected feature {extra[0]!r}: the schema has {sorted(kinds)}"
        )


def _check_kind(name: str, given: str | None, found: str | None, doing: str) -> None:
    if given is not None and found is not None and given != found:
        raise ValueError(
            f"Schema field type mismatch during {doing}: {name!r} is {given} in the schema and "
            f"{found} in the data"
        )


# -- reading ------------------------------------------------------------------------------------


def block_of_examples(examples: Sequence[bytes], kinds: Mapping[str, str] | None) -> Block:
    """Return a row per example. With a schema all columns are lists; without one a column is,
    unless each of its features has one value at most.

    Args:
        examples: The messages.
        kinds: What each feature holds, by a schema.
    """
    rows = [dict(_features(example)) for example in examples]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if kinds is not None:
        _check_names(names, kinds)
        names = [name for name in kinds if name in names] or names
    columns = {}
    for name in names:
        features = [row.get(name) for row in rows]
        found = _kind_of(name, features)
        given = None if kinds is None else kinds[name]
        _check_kind(name, given, found, "read")
        values = [None if feature is None else feature[1] for feature in features]
        columns[name] = _column(values, given or found, kinds is not None)
    return pa.table(columns)


_FeatureValues = tuple[str | None, list[Any]]


def _kind_of(name: str, features: Sequence[_FeatureValues | None]) -> str | None:
    kinds = {feature[0] for feature in features if feature is not None} - {None}
    if len(kinds) > 1:
        raise ValueError(f"feature {name!r} is of several kinds: {sorted(map(str, kinds))}")
    return kinds.pop() if kinds else None


def _column(values: list[list[Any] | None], kind: str | None, lists: bool) -> pa.Array:
    most = max((len(items) for items in values if items is not None), default=0)
    type_ = _ARROW[kind] if kind is not None and (most or lists) else pa.null()
    if most == 1 and not lists:
        return pa.array([items[0] if items else None for items in values], type_)
    return pa.array(values, pa.list_(type_))


def _features(example: bytes) -> Iterator[tuple[str, _FeatureValues]]:
    for number, features in fields_of(example):
        if number == 1:
            for inner, entry in fields_of(features):
                if inner == 1:
                    parts = dict(fields_of(entry))
                    if not isinstance(parts.get(1), bytes):
                        raise ValueError("a record has a feature without a name")
                    yield parts[1].decode(), _values(parts.get(2, b""))


def _values(feature: bytes) -> _FeatureValues:
    kind = None
    values: list[Any] = []
    for number, content in fields_of(feature):
        if number not in _KINDS:
            continue
        if kind != _KINDS[number]:  # of several kinds the last one counts
            kind, values = _KINDS[number], []
        for _, item in fields_of(content):
            if kind == "int":
                values.extend(_integers(item))
            elif not isinstance(item, bytes):
                raise ValueError(NO_BYTES.format(item))
            elif kind == "bytes":
                values.append(item)
            else:
                values.extend(_floats(item))
    return kind, values


def _floats(item: bytes) -> tuple[float, ...]:
    if len(item) % 4:
        raise ValueError(f"a record has floats of {len(item)} bytes together")
    return struct.unpack(f"<{len(item) // 4}f", item)


def _integers(item: Any) -> Iterator[int]:
    if isinstance(item, int):
        yield signed(item)
        return
    place = 0
    while place < len(item):
        value, place = read_varint(item, place)
        yield signed(value)


# -- writing ------------------------------------------------------------------------------------


def examples_of_block(block: Block, kinds: Mapping[str, str] | None) -> Iterator[bytes]:
    """Yield an example per row, with a feature per column; that of a missing value is empty.

    Args:
        block: The rows.
        kinds: What each column holds, by a schema; without one its type says it.

    Raises:
        ValueError: If a column cannot be written, or is not as the schema says.
    """
    if kinds is not None:
        _check_names(block.column_names, kinds)
    columns = [
        _encoded_column(name, block[name], None if kinds is None else kinds[name])
        for name in block.column_names
    ]
    for features in zip(*columns, strict=True):
        yield field(1, b"".join(features))


def _encoded_column(name: str, column: pa.ChunkedArray, given: str | None) -> Iterator[bytes]:
    """Yield the entry of each value in the map of features."""
    kind, lists_of = _kind_of_column(column.type)
    _check_kind(name, given, kind, "write")
    kind = given or kind
    if kind is None:
        raise ValueError(_no_kind(name, column.type))
    encode = _ENCODERS[kind]
    key = field(1, name.encode())
    for value in column_to_rows(column):
        values = encode(lists_of(value))
        yield field(1, key + field(2, field(_FIELDS[kind], values)))


def _kind_of_column(type_: pa.DataType) -> tuple[str | None, Callable[[Any], list[Any]]]:
    """Return what features of a column hold, and what makes the list of a value."""
    if is_tensor(type_):
        return "bytes", lambda value: [] if value is None else [_tensor(np.asarray(value))]
    if is_kind(type_, "list"):
        return _kind_of_type(type_.value_type), lambda value: [] if value is None else list(value)
    return _kind_of_type(type_), lambda value: [] if value is None else [value]


def _kind_of_type(type_: pa.DataType) -> str | None:
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return "int"
    if pa.types.is_floating(type_):
        return "float"
    texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    return "bytes" if type_ in texts or pa.types.is_fixed_size_binary(type_) else None


def _no_kind(name: str, type_: pa.DataType) -> str:
    inner = type_.value_type if is_kind(type_, "list") else type_
    if pa.types.is_null(inner):
        return (
            f"Unable to infer type of column {name!r}: a file has no value of it. Give tf_schema, "
            "or write fewer, larger files (min_rows_per_file)"
        )
    return (
        f"column {name!r} is of type {type_text(type_)}; TFRecords hold numbers, text, bytes and "
        "tensors, and lists of these"
    )


def _tensor(array: np.ndarray[Any, Any]) -> bytes:
    """Return a TensorProto, which tf.io.parse_tensor reads."""
    kind = _TENSOR_KINDS.get(array.dtype.name)
    if kind is None:
        raise ValueError(
            f"tensors of {array.dtype} cannot be written; TFRecords take {sorted(_TENSOR_KINDS)}"
        )
    sizes = b"".join(field(2, number_field(1, size)) for size in array.shape)
    content = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return number_field(1, kind) + field(2, sizes) + field(4, content)


def _encoded_bytes(values: list[Any]) -> bytes:
    return b"".join(field(1, item.encode() if isinstance(item, str) else item) for item in values)


def _encoded_floats(values: list[Any]) -> bytes:
    return field(1, struct.pack(f"<{len(values)}f", *values)) if values else b""


def _encoded_integers(values: list[Any]) -> bytes:
    return field(1, b"".join(varint(int(item)) for item in values)) if values else b""


_ENCODERS = {"bytes": _encoded_bytes, "float": _encoded_floats, "int": _encoded_integers}
