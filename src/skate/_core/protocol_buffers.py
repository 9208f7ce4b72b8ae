"""Messages of protocol buffers, as bytes and back, without the package and its generated code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_LARGEST = (1 << 64) - 1  # of the numbers
_NUMBER, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # kinds of fields
_ONE_BYTE = [bytes((number,)) for number in range(0x80)]  # what most numbers take
NO_BYTES = "a record has the number {} where bytes should be"


# -- writing ------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """Return a number, negative ones as their complement of 64 bits."""
    if 0 <= number < 0x80:
        return _ONE_BYTE[number]
    number &= _LARGEST
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def number_field(field_number: int, number: int) -> bytes:
    """Return a field with a number."""
    return varint(field_number << 3 | _NUMBER) + varint(number)


def field(field_number: int, content: bytes) -> bytes:
    """Return a field with bytes: text, or a message."""
    return varint(field_number << 3 | _BYTES) + varint(len(content)) + content


# -- reading ------------------------------------------------------------------------------------


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it.

    Raises:
        ValueError: If there is none.
    """
    value = shift = 0
    while True:
        if shift > 63 or place >= len(data):
            raise ValueError(f"there is no number at byte {place} of a record of {len(data)}")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _LARGEST, place
        shift += 7


def signed(number: int) -> int:
    """Return what a number means where it may be negative."""
    return number - (1 << 64) if number >= 1 << 63 else number


def fields_of(data: object) -> Iterator[tuple[int, Any]]:
    """Yield the number and the content of each field of a message: a number, or bytes.

    Raises:
        ValueError: If it is no message.
    """
    if not isinstance(data, bytes):
        raise ValueError(NO_BYTES.format(data))
    place = 0
    while place < len(data):
        key, place = read_varint(data, place)
        kind = key & 7
        content: Any
        if kind == _NUMBER:
            content, place = read_varint(data, place)
        elif kind == _FOUR_BYTES:
            content, place = data[place : place + 4], place + 4
        elif kind == _EIGHT_BYTES:
            content, place = data[place : place + 8], place + 8
        else:
            length, place = read_varint(data, place)
            if place + length > len(data):
                raise ValueError(f"a field of a record ends {length} bytes after byte {place}")
            content, place = data[place : place + length], place + length
        yield key >> 3, content
