"""Messages of protocol buffers, as bytes and back."""

from __future__ import annotations

import pytest

from skate._core.protocol_buffers import (
    field,
    fields_of,
    number_field,
    read_varint,
    signed,
    varint,
)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1])
def test_numbers(number: int) -> None:
    data = varint(number)
    assert read_varint(b"x" + data, 1) == (number, 1 + len(data))


@pytest.mark.parametrize("number", [-1, -(2**63), 0, 2**63 - 1])
def test_numbers_that_may_be_negative(number: int) -> None:
    assert signed(read_varint(varint(number), 0)[0]) == number


def test_as_others_write_them() -> None:
    assert varint(300) == b"\xac\x02"
    assert number_field(1, 150) == b"\x08\x96\x01"
    assert field(2, b"testing") == b"\x12\x07testing"
    assert field(1, b"x" * 200)[:3] == b"\x0a\xc8\x01"


def test_fields() -> None:
    numbers = b"\x1d" + b"abcd" + b"\x21" + b"abcdefgh"  # the fields 3 and 4, of fixed sizes
    message = number_field(1, 7) + field(2, b"seven") + numbers
    assert list(fields_of(message)) == [(1, 7), (2, b"seven"), (3, b"abcd"), (4, b"abcdefgh")]


@pytest.mark.parametrize("data", [b"\x80", b"\xff" * 11, b"\x08", b"\x12\x05abc", 7])
def test_what_is_none(data: object) -> None:
    with pytest.raises(ValueError, match="record"):
        list(fields_of(data))
