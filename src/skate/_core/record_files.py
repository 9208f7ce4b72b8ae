"""Records as TFRecord and TensorBoard files have them: length, checksum, bytes, checksum."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Record(NamedTuple):
    """A record of a file: where it begins, its content, and the checksum that goes with it."""

    place: int
    body: bytes
    check: int


def records_in(data: bytes) -> Iterator[bytes]:
    """Return the content of each record."""
    return (record.body for record in checked_records_in(data))


def checked_records_in(data: bytes) -> Iterator[Record]:
    """Yield the records, with lengths checked; whether `check` fits the body is left to others."""
    place = 0
    while place < len(data):
        header = data[place : place + 12]
        if len(header) < 12:
            raise ValueError(f"the record at byte {place} is cut off")
        length, check = struct.unpack("<QI", header)
        if masked_crc(header[:8]) != check:
            raise ValueError(f"the length of the record at byte {place} is damaged")
        end = place + 12 + length
        if len(data) < end + 4:
            raise ValueError(f"the record at byte {place} is cut off")
        yield Record(place, data[place + 12 : end], struct.unpack("<I", data[end : end + 4])[0])
        place += 16 + length


def record_of(body: bytes) -> bytes:
    """Return a record with this content."""
    return b"".join((_head(len(body)), body, struct.pack("<I", masked_crc(body))))


@functools.lru_cache(maxsize=1024)  # records of one kind have few lengths
def _head(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + struct.pack("<I", masked_crc(length))


@functools.cache  # a program that reads no such file should not wait for them
def crc_tables() -> tuple[list[int], list[int], list[int], list[int]]:
    """Return what CRC-32C makes of a byte that is followed by none, one, two and three others:
    with four bytes at a time it is twice as fast as with one."""
    first = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (0x82F63B78 if number & 1 else 0)
        first.append(number)

    def further(table: list[int]) -> list[int]:
        return [(number >> 8) ^ first[number & 0xFF] for number in table]

    second = further(first)
    third = further(second)
    return first, second, third, further(third)


def _crc_by_tables(data: bytes) -> int:
    """Compute CRC-32C, by tables."""
    first, second, third, fourth = crc_tables()
    crc = 0xFFFFFFFF
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", memoryview(data)[:whole]):
        crc ^= word
        crc = (
            fourth[crc & 0xFF]
            ^ third[(crc >> 8) & 0xFF]
            ^ second[(crc >> 16) & 0xFF]
            ^ first[crc >> 24]
        )
    for byte in memoryview(data)[whole:]:
        crc = first[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@functools.cache
def crc32c() -> Callable[[bytes], int]:
    """Return the function that computes CRC-32C: a package's, which is a hundred times as fast, or
    our own where that is not installed."""
    try:
        from google_crc32c import value
    except ImportError:
        return _crc_by_tables
    found: Callable[[bytes], int] = value
    return found


def masked_crc(data: bytes) -> int:
    """Compute CRC-32C, as `masked` has it."""
    return masked(crc32c()(data))


def masked(crc: int) -> int:
    """Return the checksum as the format keeps it: rotated and shifted."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
