"""Segments: written, mapped, recycled, spilled, and full disks."""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skate import exceptions
from skate._core import serialization
from skate._core.serialization import Serialized
from skate.engine.local import store as store_module
from skate.engine.local.store import (
    Location,
    SegmentMovedError,
    Store,
    parts_of,
    segment_size,
)


class Bench:
    """A store, its directories and its timers."""

    def __init__(self, root: Path, capacity: int = 64 << 20) -> None:
        self.shm, self.disk = root / "shm", root / "disk"
        self.shm.mkdir()
        self.disk.mkdir()
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.store = Store(
            str(self.shm), str(self.disk), 5, capacity, lambda *timer: self.timers.append(timer)
        )

    def write(self, value: Any) -> Location:
        return self.store.write(serialization.dumps(value), lambda size: False)

    def read(self, location: Location) -> Any:
        return serialization.loads(parts_of(self.store.open(location)))

    def files(self) -> list[str]:
        return sorted(os.listdir(self.shm)) + sorted(os.listdir(self.disk))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def array(size: int, value: int = 7) -> Any:
    return np.full(size, value, np.uint8)


# -- reading and writing -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        b"x" * 1000,
        {"a": np.arange(1000.0), "b": [np.zeros((0, 3)), np.array(5), "text"]},
        [np.arange(n) for n in range(70)],
        np.asfortranarray(np.arange(12).reshape(3, 4)),
        bytearray(b"mutable"),
    ],
)
def test_values_come_back(bench: Bench, value: Any) -> None:
    np.testing.assert_equal(bench.read(bench.write(value)), value)


def test_buffers_are_aligned_and_read_only(bench: Bench) -> None:
    first, second = bench.read(bench.write((array(33), np.arange(5))))
    assert first.ctypes.data % 64 == second.ctypes.data % 64 == 0
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_what_is_read_is_known_never_to_change(bench: Bench) -> None:
    owner = bench.read(bench.write(array(1000)))
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert serialization.is_snapshot(owner)


def test_a_segment_has_the_size_that_is_told(bench: Bench) -> None:
    serialized = serialization.dumps([array(n) for n in (1, 64, 65, 4097)])
    name, size = bench.store.write(serialized, lambda size: False)
    assert size == segment_size(serialized) == os.stat(bench.store.path(name)).st_size


def test_more_buffers_than_one_system_call_takes(bench: Bench) -> None:
    value = [np.array([n]) for n in range(5_000)]
    assert bench.read(bench.write(value)) == value


def test_writes_that_the_kernel_cuts_short(bench: Bench, monkeypatch: Any) -> None:
    def short(fd: int, views: list[memoryview]) -> int:
        return os.write(fd, views[0][: 1 + len(views[0]) // 2])

    monkeypatch.setattr(store_module.os, "writev", short)
    value = [array(1000, n) for n in range(5)]
    np.testing.assert_equal(bench.read(bench.write(value)), value)


def test_a_segment_is_private_to_its_user(bench: Bench) -> None:
    name, _ = bench.write(array(10))
    assert os.stat(bench.store.path(name)).st_mode & 0o777 == 0o600


def test_what_others_put_in_the_place_of_a_segment_is_not_read(
    bench: Bench, monkeypatch: Any
) -> None:
    name, size = bench.write(array(1000))
    path = bench.store.path(name)
    assert bench.store.exists((name, size))
    os.rename(path, f"{path}-of-somebody")
    os.symlink(f"{path}-of-somebody", path)
    with pytest.raises(SegmentMovedError):
        bench.store.open((name, size))
    os.replace(f"{path}-of-somebody", path)
    monkeypatch.setattr(bench.store, "_user", os.geteuid() + 1)
    with pytest.raises(SegmentMovedError):
        bench.store.open((name, size))
    bench.store.delete(name)


def test_a_deleted_or_shortened_segment_is_missing(bench: Bench) -> None:
    name, size = bench.write(array(1000))
    os.truncate(bench.store.path(name), size - 1)
    assert not bench.store.exists((name, size))
    with pytest.raises(SegmentMovedError):
        bench.store.open((name, size))
    with pytest.raises(SegmentMovedError):
        bench.store.spill((name, size))
    bench.store.delete(name)
    bench.store.delete(name)
    assert not bench.store.exists((name, size))
    with pytest.raises(SegmentMovedError):
        bench.store.open((name, size))
    with pytest.raises(SegmentMovedError):
        bench.store.spill((name, size))
    assert bench.files() == []


# -- recycling ---------------------------------------------------------------------------------


def test_the_best_fitting_segment_is_used_again(bench: Bench) -> None:
    locations = [bench.write(array(size)) for size in (1_200_000, 1_050_000, 1_100_000)]
    for name, _ in locations:
        bench.store.recycle(name)
    name, size = bench.write(array(1_000_000, 9))
    assert name == locations[1][0]
    assert size == segment_size(serialization.dumps(array(1_000_000)))
    np.testing.assert_array_equal(bench.read((name, size)), array(1_000_000, 9))


def test_segments_too_small_or_far_too_large_are_left(bench: Bench) -> None:
    for size in (900_000, 1_400_000):
        bench.store.recycle(bench.write(array(size))[0])
    assert bench.write(array(1_000_000))[0] == "s5-3"


def test_a_segment_that_cannot_be_written_again_is_not_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(fd: int, size: int) -> Any:
        raise OSError(errno.ENOMEM, "no memory")

    bench.store.recycle(bench.write(array(1 << 20))[0])
    with monkeypatch.context() as patched:
        patched.setattr(store_module, "map_shared", no_memory)
        with pytest.raises(OSError, match="no memory"):
            bench.write(array(1 << 20))
    assert bench.files() == []
    assert bench.read(bench.write(array(1 << 20)))[0] == 7


def test_a_segment_can_be_recycled_again_and_again(bench: Bench) -> None:
    names = set()
    for value in range(5):
        location = bench.write(array(200_000, value))
        np.testing.assert_array_equal(bench.read(location), array(200_000, value))
        names.add(location[0])
        bench.store.recycle(location[0])
    assert len(names) == 1


def test_the_pool_is_limited_to_a_quarter_of_the_capacity(tmp_path: Path) -> None:
    bench = Bench(tmp_path, capacity=1_000_000)
    first, second = bench.write(array(200_000)), bench.write(array(200_000))
    bench.store.recycle(first[0])
    bench.store.recycle(second[0])
    assert bench.files() == [first[0]]


def test_unused_segments_are_trimmed(bench: Bench, monkeypatch: Any) -> None:
    now = time.monotonic()
    monkeypatch.setattr(store_module.time, "monotonic", lambda: now)
    old, young = bench.write(array(200_000)), bench.write(array(400_000))
    bench.store.recycle(old[0])
    ((delay, trim),) = bench.timers
    assert delay == 3.0
    now += 2.0
    bench.store.recycle(young[0])
    assert len(bench.timers) == 1
    now += 1.5
    trim()
    assert bench.files() == [young[0]]
    now += 3.0
    assert len(bench.timers) == 2  # there was more to come
    bench.timers[1][1]()
    assert bench.files() == []
    assert len(bench.timers) == 2


def test_recycling_what_is_gone_is_no_error(bench: Bench) -> None:
    name, _ = bench.write(array(1000))
    bench.store.delete(name)
    bench.store.recycle(name)
    assert bench.write(array(1000))[0] != name


def test_segments_on_disk_are_deleted_not_kept(bench: Bench) -> None:
    moved = bench.store.spill(bench.write(array(1000)))
    bench.store.recycle(moved[0])
    assert bench.files() == ["s5-1"]


def test_closing_removes_what_was_kept(bench: Bench) -> None:
    bench.store.recycle(bench.write(array(1000))[0])
    bench.store.close()
    assert bench.files() == []


# -- full --------------------------------------------------------------------------------------


@pytest.fixture
def full(monkeypatch: Any) -> Callable[[str, str], None]:
    """Make a system call fail with ENOSPC for files under a directory."""

    def fill(directory: str, call: str) -> None:
        real = getattr(os, call)

        def fails(target: Any, *args: Any) -> Any:
            path = target if isinstance(target, str) else os.readlink(f"/proc/self/fd/{target}")
            writes = call != "open" or args[0] & os.O_CREAT
            if writes and path.startswith(directory):
                if call == "writev":
                    real(target, [args[0][0][:10]])  # a part fits
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(target, *args)

        monkeypatch.setattr(store_module.os, call, fails)

    return fill


@pytest.mark.parametrize("call", ["writev", "open"])
def test_full_shared_memory_falls_to_disk(
    bench: Bench, full: Callable[[str, str], None], call: str
) -> None:
    full(str(bench.shm), call)
    asked: list[int] = []

    def make_room(size: int) -> bool:
        asked.append(size)
        return True

    name, size = bench.store.write(serialization.dumps(array(1000)), make_room)
    assert asked == [size, size]
    assert bench.files() == [name]
    assert name[0] == "d"
    np.testing.assert_array_equal(bench.read((name, size)), array(1000))


def test_nothing_to_spill_falls_to_disk_at_once(
    bench: Bench, full: Callable[[str, str], None]
) -> None:
    full(str(bench.shm), "writev")
    assert bench.write(array(1000))[0][0] == "d"


@pytest.mark.parametrize("call", ["writev", "open"])
def test_a_full_disk_is_a_typed_error_and_leaves_nothing(
    bench: Bench, full: Callable[[str, str], None], call: str
) -> None:
    full(str(bench.shm.parent), call)
    with pytest.raises(exceptions.OutOfDiskError, match=r"spill_dir=") as caught:
        bench.write(array(1000))
    assert str(bench.shm) in str(caught.value)
    assert str(bench.disk) in str(caught.value)
    assert bench.files() == []


@pytest.mark.parametrize("call", ["sendfile", "open"])
def test_a_full_disk_while_spilling_keeps_the_segment(
    bench: Bench, full: Callable[[str, str], None], call: str
) -> None:
    location = bench.write(array(1000))
    full(str(bench.disk), call)
    with pytest.raises(exceptions.OutOfDiskError, match="could not spill"):
        bench.store.spill(location)
    assert bench.files() == [location[0]]
    np.testing.assert_array_equal(bench.read(location), array(1000))


def test_a_full_pool_makes_room_before_anything_is_spilled(
    bench: Bench, full: Callable[[str, str], None]
) -> None:
    bench.store.recycle(bench.write(array(500_000))[0])
    full(str(bench.shm), "writev")
    assert bench.write(array(1_000_000))[0][0] == "d"
    assert len(bench.files()) == 1


@pytest.fixture
def small_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_a_limit_of_the_system_is_like_a_full_disk(bench: Bench) -> None:
    with pytest.raises(exceptions.OutOfDiskError):
        bench.write(array(200_000))
    assert bench.files() == []
    np.testing.assert_array_equal(bench.read(bench.write(array(1000))), array(1000))


def test_other_errors_are_not_taken_for_a_full_disk(bench: Bench) -> None:
    bench.shm.rmdir()
    with pytest.raises(FileNotFoundError):
        bench.write(array(1000))


def test_what_is_larger_than_the_capacity_goes_to_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path, capacity=100_000)
    assert bench.write(array(200_000))[0][0] == "d"
    assert bench.write(array(50_000))[0][0] == "s"


# -- spilling ----------------------------------------------------------------------------------


def test_a_spilled_value_is_the_same_and_views_of_the_old_one_stay(bench: Bench) -> None:
    location = bench.write(array(300_000))
    view = bench.read(location)
    moved = bench.store.spill(location)
    bench.store.delete(location[0])
    assert moved[1] == location[1]
    np.testing.assert_array_equal(bench.read(moved), view)
    assert view[0] == 7


def test_only_what_belongs_to_the_value_is_spilled(bench: Bench) -> None:
    bench.store.recycle(bench.write(array(240_000))[0])
    location = bench.write(array(200_000))  # in a larger, recycled segment
    assert os.stat(bench.store.path(location[0])).st_size > location[1]
    moved = bench.store.spill(location)
    assert os.stat(bench.store.path(moved[0])).st_size == location[1]
    np.testing.assert_array_equal(bench.read(moved), array(200_000))


def test_sizes_of_serialized_values_are_in_bytes() -> None:
    serialized: Serialized = serialization.dumps(np.arange(10, dtype=np.int64))
    assert [buffer.nbytes for buffer in serialized.buffers] == [80]
    assert serialized.size == len(serialized.payload) + 80
