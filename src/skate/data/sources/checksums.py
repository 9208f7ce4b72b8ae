"""CRC-32C of many records at once, by NumPy: a loop over bytes in Python takes a hundred times as
long as reading them.

The register of a CRC is linear: zeros in front of a message whose register begins with zero change
nothing. So messages of unequal lengths are put side by side, as the rows of a matrix with zeros in
front, and each step takes four bytes of every row. A long message becomes several rows, whose
registers are put together by the powers of the step for a zero byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from skate._core.record_files import Record, crc_tables, masked

PIECE_BYTES = 4096  # of a long message that is one row
_ALL_ONES = 0xFFFFFFFF
_Words = npt.NDArray[np.uint32]


def check_bodies(records: Sequence[Record]) -> None:
    """Raise a ValueError for the first record whose content does not fit its checksum."""
    for record, found in zip(records, _registers([r.body for r in records]), strict=True):
        if masked(found ^ _ALL_ONES) != record.check:
            raise ValueError(f"the content of the record at byte {record.place} is damaged")


def _registers(bodies: Sequence[bytes]) -> list[int]:
    """Return the register after each message, which began with ones."""
    found = [0] * len(bodies)
    groups: dict[int, list[int]] = {}
    for number, body in enumerate(bodies):
        if len(body) > PIECE_BYTES:
            found[number] = _register_of_long(body)
        else:
            groups.setdefault(len(body).bit_length(), []).append(number)
    for numbers in groups.values():
        rows = _rows([bodies[number] for number in numbers])
        for number, register in zip(numbers, _last_registers(rows), strict=True):
            found[number] = int(register) if len(bodies[number]) >= 4 else _of_few(bodies[number])
    return found


def _of_few(body: bytes) -> int:
    """Return the register of a message that is shorter than the register itself."""
    register = _ALL_ONES
    first = crc_tables()[0]
    for byte in body:
        register = first[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def _rows(bodies: Sequence[bytes]) -> _Words:
    """Return the messages as rows of words, with zeros in front. That a register begins with ones
    is as if the first four bytes were inverted."""
    width = -(-max(map(len, bodies)) // 4) * 4
    rows = np.zeros((len(bodies), width), np.uint8)
    for row, body in zip(rows, bodies, strict=True):
        if body:
            row[width - len(body) :] = np.frombuffer(body, np.uint8)
            row[width - len(body) : width - len(body) + 4] ^= 0xFF
    return rows.view("<u4")


def _last_registers(rows: _Words) -> _Words:
    """Return the register after each row, which began with zero."""
    registers = np.zeros(len(rows), np.uint32)
    for column in np.ascontiguousarray(rows.T):
        registers = _shifted(registers ^ column)
    return registers


@lru_cache(maxsize=1)
def _tables() -> list[_Words]:
    return [np.array(table, np.uint32) for table in reversed(crc_tables())]


def _shifted(registers: _Words) -> _Words:
    """Return the registers after another four zero bytes."""
    first, second, third, fourth = (
        table[(registers >> 8 * place) & 0xFF] for place, table in enumerate(_tables())
    )
    shifted: _Words = first ^ second ^ third ^ fourth
    return shifted


def _register_of_long(body: bytes) -> int:
    size = PIECE_BYTES
    padded = np.zeros(-(-len(body) // size) * size, np.uint8)
    start = len(padded) - len(body)
    padded[start:] = np.frombuffer(body, np.uint8)
    padded[start : start + 4] ^= 0xFF
    register = 0
    first, second, third, fourth = _tables_for_zeros(size)
    for piece in _last_registers(padded.reshape(-1, size).view("<u4")).tolist():
        shifted = first[register & 0xFF] ^ second[register >> 8 & 0xFF]
        shifted ^= third[register >> 16 & 0xFF] ^ fourth[register >> 24]
        register = shifted ^ piece
    return register


@lru_cache(maxsize=1)
def _tables_for_zeros(count: int) -> list[list[int]]:
    """Return, for each byte of a register, what `count` zero bytes make of its values."""
    tables = []
    for place in range(4):
        registers = np.arange(256, dtype=np.uint32) << np.uint32(8 * place)
        for _ in range(count // 4):
            registers = _shifted(registers)
        tables.append(registers.tolist())
    return tables
