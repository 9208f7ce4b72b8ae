from __future__ import annotations

import random

import pytest

from skate._core.record_files import _crc_by_tables, crc32c


@pytest.mark.parametrize("crc", [crc32c(), _crc_by_tables])
def test_the_checksum_is_that_of_the_standard(crc):
    assert crc(b"123456789") == 0xE3069283
    assert crc(b"") == 0


def test_checksums_are_the_same_with_and_without_the_package():
    draws = random.Random(0)
    for size in range(70):
        data = draws.randbytes(size)
        assert crc32c()(data) == _crc_by_tables(data)
