"""Mappings that live as long as someone looks at them."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from skate.engine.local import mapping
from skate.engine.local.mapping import map_copy_on_write, map_shared


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(b"0123456789")
    return made


def opened(path: Path, map: object = map_copy_on_write) -> memoryview:
    fd = os.open(path, os.O_RDWR)
    try:
        return memoryview(map(fd, 10)).cast("B")  # type: ignore[operator]
    finally:
        os.close(fd)


def test_copy_on_write_changes_only_itself(path: Path) -> None:
    one, two = opened(path), opened(path)
    one[0] = ord("x")
    assert bytes(one) == b"x123456789"
    assert bytes(two) == b"0123456789"
    assert path.read_bytes() == b"0123456789"


def test_shared_changes_the_file(path: Path) -> None:
    opened(path, map_shared)[0] = ord("x")
    assert path.read_bytes() == b"x123456789"


def test_views_keep_the_mapping_and_the_last_one_ends_it(path: Path) -> None:
    before = set(mapping._live)
    part = opened(path)[3:6].toreadonly()
    gc.collect()
    assert len(set(mapping._live) - before) == 1
    path.unlink()  # what is mapped stays
    assert bytes(part) == b"345"
    del part
    assert set(mapping._live) == before
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_mappings_hold_no_descriptor(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    views = [opened(path) for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(bytes(view) == b"0123456789" for view in views)


def test_what_cannot_be_mapped_is_an_os_error() -> None:
    read, write = os.pipe()
    try:
        with pytest.raises(OSError, match="No such device"):
            map_copy_on_write(read, 10)
    finally:
        os.close(read)
        os.close(write)
