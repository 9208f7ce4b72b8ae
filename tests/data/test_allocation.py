"""Memory that workers keep for the next batch."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support import run_program

# The pages that are new to the process in the last of several rounds, which all need as much.
PROGRAM = """
import resource
from skate.data._execution.allocation import keep_memory

keep_memory()
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    one, other = bytearray(20 << 20), bytearray(20 << 20)
    del one, other
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = (40 << 20) // os.sysconf("SC_PAGE_SIZE")


def new_pages(**variables: str) -> int:
    found = run_program(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **variables}, check=True
    )
    return int(found.stdout)


def test_memory_is_used_again():
    assert new_pages() < PAGES / 10


@pytest.mark.parametrize("variable", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"])
def test_what_the_user_has_set_stays(variable):
    assert new_pages(**{variable: "131072"}) > PAGES / 2
