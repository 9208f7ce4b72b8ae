"""Paths mean what they say: folders, patterns, file systems."""

import pytest

import skate
import skate.data
from tests.support import local_only

pytestmark = pytest.mark.usefixtures("engine")


@local_only
def test_the_memory_of_another_process_is_named():
    import fsspec

    fsspec.filesystem("memory").pipe("/surprise/a.csv", b"x\n1\n")
    dataset = skate.data.read_csv("memory://surprise/a.csv")
    assert dataset.take_all() == [{"x": 1}]
    with pytest.raises(FileNotFoundError, match="memory of one process"):
        dataset.map(lambda row: row).take_all()
