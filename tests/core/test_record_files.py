from __future__ import annotations

import random

import pytest

from skate._core.record_files import _crc_by_tables, crc32c, record_of, records_in


@pytest.mark.parametrize("crc", [crc32c(), _crc_by_tables])
def test_the_checksum_is_that_of_the_standard(crc):
    assert crc(b"123456789") == 0xE3069283
    assert crc(b"") == 0


def test_checksums_are_the_same_with_and_without_the_package():
    draws = random.Random(0)
    for size in range(70):
        data = draws.randbytes(size)
        assert crc32c()(data) == _crc_by_tables(data)


def test_a_damaged_length_is_no_other_record():
    """One that is shorter by 16 could end where a record within the content begins."""
    inner = record_of(b"inside")
    data = bytearray(record_of(b"x" * 4 + inner) + record_of(b"next"))
    assert list(records_in(bytes(data))) == [b"x" * 4 + inner, b"next"]
    for place in (0, 1, 7, 8, 11):  # of the length, and of its checksum
        damaged = bytearray(data)
        damaged[place] ^= 2
        with pytest.raises(ValueError, match="length of the record at byte 0 is damaged"):
            list(records_in(bytes(damaged)))
