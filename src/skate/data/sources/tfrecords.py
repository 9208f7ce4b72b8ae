"""TFRecord files of tf.train.Example, read and written without TensorFlow.

A file is a row of records: length (8 bytes), its checksum (4), the bytes, their checksum (4). An
Example is a protocol buffer: features { map<string, Feature> }, where a Feature is one of a
list of bytes (field 1), floats (field 2) or integers (field 3).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.record_files import checked_records_in
from skate.data._arrow.blocks import Block, block_of_rows
from skate.data.sources.checksums import check_bodies
from skate.data.sources.files import FileSource

if TYPE_CHECKING:
    from skate.data._arrow.blocks import Row


ROWS_PER_BLOCK = 16_384
BYTES, FLOATS, INTEGERS = 1, 2, 3


@dataclass(frozen=True)
class TFRecordSource(FileSource):
    name = "TFRecords"
    runs_python = True

    def read_file(self, path: str) -> Iterator[Block]:
        with self.open(path) as stream:
            data = stream.read()
        records = checked_records_in(data)
        while some := list(islice(records, ROWS_PER_BLOCK)):
            check_bodies(some)
            yield block_of_rows([row_of_example(record.body) for record in some])


# -- examples -----------------------------------------------------------------------------------


def row_of_example(data: bytes) -> Row:
    """A row: one value for a feature with one, otherwise the list of its values."""
    row: dict[str, Any] = {}
    for number, features in _fields(data):
        if number == 1:
            for inner, entry in _fields(features):
                if inner == 1:
                    parts = dict(_fields(entry))
                    if not isinstance(parts.get(1), bytes):
                        raise ValueError("a record has a feature without a name")
                    row[parts[1].decode()] = _values(parts.get(2, b""))
    return row


def _values(feature: bytes) -> Any:
    values: list[Any] = []
    for kind, content in _fields(feature):
        for _, item in _fields(content):
            if kind == BYTES:
                values.append(item)
            elif kind == FLOATS:
                values.extend(struct.unpack(f"<{len(item) // 4}f", item))
            else:
                values.extend(_integers(item))
    if not values:
        return None
    return values[0] if len(values) == 1 else values


def _integers(item: Any) -> Iterator[int]:
    if isinstance(item, int):
        yield _signed(item)
        return
    place = 0
    while place < len(item):
        value, place = _varint(item, place)
        yield _signed(value)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if shift > 63 or place >= len(data):
            raise ValueError(f"there is no number at byte {place} of a record of {len(data)}")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, content) of each field of a message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            content: Any
            content, place = _varint(data, place)
        elif kind == 5:
            content, place = data[place : place + 4], place + 4
        elif kind == 1:
            content, place = data[place : place + 8], place + 8
        else:
            length, place = _varint(data, place)
            if place + length > len(data):
                raise ValueError(f"a field of a record ends {length} bytes after byte {place}")
            content, place = data[place : place + length], place + length
        yield key >> 3, content


def example_of_row(row: Mapping[str, object]) -> bytes:
    """A tf.train.Example with a feature per column."""
    entries = b"".join(
        _field(1, _field(1, name.encode()) + _field(2, _feature(name, value)))
        for name, value in row.items()
        if value is not None
    )
    return _field(1, entries)


def _field(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | 2) + _encoded(len(content)) + content


def _encoded(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _feature(name: str, value: Any) -> bytes:
    values = np.ravel(value).tolist() if isinstance(value, np.ndarray) else value
    values = values if isinstance(values, list) else [values]
    if all(isinstance(item, (str, bytes)) for item in values):
        items = (item.encode() if isinstance(item, str) else item for item in values)
        return _field(BYTES, b"".join(_field(1, item) for item in items))
    if all(isinstance(item, int) for item in values):
        return _field(INTEGERS, _field(1, b"".join(_encoded(item) for item in values)))
    if all(isinstance(item, (int, float)) for item in values):
        return _field(FLOATS, _field(1, struct.pack(f"<{len(values)}f", *values)))
    raise TypeError(
        f"column {name!r} holds {type(values[0]).__name__}; TFRecords hold numbers, text, bytes"
    )
