"""The limit of open files: high where one is needed per worker, and nowhere else."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any

import pytest

import skate
from tests.support import local_only

FILES = resource.RLIMIT_NOFILE


@pytest.fixture
def few() -> Iterator[int]:
    """A limit that is lower than it has to be."""
    before = resource.getrlimit(FILES)
    resource.setrlimit(FILES, (300, before[1]))
    yield 300
    resource.setrlimit(FILES, before)


@local_only
def test_the_driver_may_open_many_files_and_its_workers_as_many_as_before(
    few: int, start: Any
) -> None:
    start(num_cpus=1)

    @skate.remote
    def limit() -> int:
        return resource.getrlimit(FILES)[0]

    assert resource.getrlimit(FILES)[0] > few
    assert skate.get(limit.remote()) == few
    skate.shutdown()
    assert resource.getrlimit(FILES)[0] == few
