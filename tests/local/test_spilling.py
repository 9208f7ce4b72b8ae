"""Which objects leave shared memory, and when."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skate import exceptions
from skate._core import serialization
from skate.engine.local.hub.spilling import Spilling
from skate.engine.local.objects import STORED, ObjectEntry
from skate.engine.local.store import Store, parts_of

SIZE = 1 << 20


class Bench:
    def __init__(self, root: Path, objects: float) -> None:
        dirs = [root / "shm", root / "disk"]
        for path in dirs:
            path.mkdir()
        shm, disk = map(str, dirs)
        self.store = Store(shm, disk, 0, int(objects * (SIZE + 4096)), lambda *timer: None)
        self.forgotten: list[str] = []
        self.lock = threading.RLock()
        self.spilling = Spilling(self.store, self.forgotten.append, self.lock)
        self.count = 0

    def put(self) -> ObjectEntry:
        self.count += 1
        entry = ObjectEntry(self.count)
        value = serialization.dumps(bytes([self.count]) * SIZE)
        location = self.store.write(value, lambda size: False)
        self.spilling.added(entry, location)
        entry.kind, entry.data = STORED, location
        self.spilling.settle()
        return entry

    def read(self, entry: ObjectEntry) -> Any:
        return serialization.loads(parts_of(self.store.open(entry.data)))

    def spilled(self, *entries: ObjectEntry) -> list[bool]:
        return [entry.data[0][0] == "d" for entry in entries]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, objects=3)


def test_the_coldest_go_first_and_stay_readable(bench: Bench) -> None:
    entries = [bench.put() for _ in range(3)]
    bench.spilling.used(entries[0])
    entries.append(bench.put())
    assert bench.spilled(*entries) == [False, True, False, False]
    assert [bench.read(entry)[0] for entry in entries] == [1, 2, 3, 4]
    assert bench.spilling.bytes_in_memory == sum(e.data[1] for e in entries if e.data[0][0] == "s")


def test_the_newest_is_spared_even_if_it_alone_is_too_much(tmp_path: Path) -> None:
    bench = Bench(tmp_path, objects=1.0)
    first = bench.put()
    second = bench.put()
    assert bench.spilled(first, second) == [True, False]


def test_room_is_made_before_writing(bench: Bench) -> None:
    entries = [bench.put() for _ in range(3)]
    bench.spilling.make_room(2 * SIZE)
    assert bench.spilled(*entries) == [True, True, False]
    bench.spilling.make_room(1000)
    assert bench.spilled(*entries) == [True, True, False]


def test_removed_objects_are_neither_counted_nor_spilled(bench: Bench) -> None:
    first, second = bench.put(), bench.put()
    bench.spilling.removed(first)
    bench.spilling.removed(first)
    assert bench.spilling.bytes_in_memory == second.data[1]
    assert bench.spilling.free_memory(1)
    assert bench.spilled(first, second) == [False, True]
    assert not bench.spilling.free_memory(1)
    bench.spilling.removed(second)
    bench.spilling.used(second)
    assert bench.spilling.bytes_in_memory == 0


def test_the_old_segment_is_gone_once_it_is_copied_and_its_writer_is_told(bench: Bench) -> None:
    entry = bench.put()
    name = entry.data[0]
    assert bench.spilling.names_in_memory() == {name}
    assert bench.spilling.free_memory(1)
    assert not os.path.exists(bench.store.path(name))
    assert bench.forgotten == [name]
    assert bench.spilling.names_in_memory() == set()


def test_a_full_disk_ends_spilling_and_loses_nothing(bench: Bench, monkeypatch: Any) -> None:
    entries = [bench.put(), bench.put()]
    tries: list[Any] = []

    def full(location: Any) -> Any:
        tries.append(location)
        raise exceptions.OutOfDiskError("full")

    monkeypatch.setattr(bench.store, "spill", full)
    assert not bench.spilling.free_memory(1)
    assert not bench.spilling.free_memory(1)
    assert len(tries) == 1
    assert bench.spilled(*entries) == [False, False]
    assert [bench.read(entry)[0] for entry in entries] == [1, 2]


def test_a_segment_that_was_deleted_from_outside_is_passed_over(bench: Bench) -> None:
    lost, there = bench.put(), bench.put()
    bench.store.delete(lost.data[0])
    assert bench.spilling.free_memory(1)
    assert bench.spilled(lost, there) == [False, True]
    assert bench.spilling.bytes_in_memory == 0


def test_what_is_mapped_here_goes_last(bench: Bench) -> None:
    entries = [bench.put() for _ in range(3)]
    entries[0].mapped = 1
    assert bench.spilling.free_memory(2 * SIZE)
    assert bench.spilled(*entries) == [False, True, True]
    assert bench.spilling.free_memory(1)
    assert bench.spilled(*entries) == [True, True, True]


@pytest.fixture
def copying(bench: Bench, monkeypatch: Any) -> list[Callable[[], object]]:
    """What others do while a segment is copied: they can, as nobody has the lock."""
    actions: list[Callable[[], object]] = []
    spill = bench.store.spill

    def spill_slowly(location: Any) -> Any:
        moved = spill(location)
        for act in actions:
            other = threading.Thread(target=lambda act=act: locked(act))
            other.start()
            other.join(timeout=10)
            assert not other.is_alive()
        return moved

    def locked(act: Callable[[], object]) -> None:
        with bench.lock:
            act()

    monkeypatch.setattr(bench.store, "spill", spill_slowly)
    return actions


def test_nobody_waits_while_objects_are_copied(bench: Bench, copying: list[Any]) -> None:
    first, second = bench.put(), bench.put()
    seen: list[Any] = []
    copying.append(lambda: seen.append((bench.spilled(first), bench.spilling.names_in_memory())))
    names = {first.data[0], second.data[0]}
    assert bench.spilling.free_memory(1)
    assert seen == [([False], names)]
    assert bench.spilled(first, second) == [True, False]


def test_an_object_that_is_freed_while_it_is_copied_leaves_nothing(
    bench: Bench, copying: list[Any]
) -> None:
    first, second = bench.put(), bench.put()
    copying.append(lambda: bench.spilling.removed(first))
    assert bench.spilling.free_memory(1)
    assert bench.spilled(first, second) == [False, True]
    assert bench.spilling.bytes_in_memory == 0
    assert os.listdir(bench.store._dirs["d"]) == [second.data[0]]


def test_an_object_is_spilled_once_by_two_at_a_time(bench: Bench, copying: list[Any]) -> None:
    entries = [bench.put() for _ in range(3)]

    def spill_too() -> None:
        copying.clear()
        bench.spilling.free_memory(1)

    copying.append(spill_too)
    assert bench.spilling.free_memory(1)
    assert bench.spilled(*entries) == [True, True, False]
    assert bench.spilling.bytes_in_memory == entries[2].data[1]
    assert len(os.listdir(bench.store._dirs["d"])) == 2


def test_what_was_interrupted_stays_where_it_was(bench: Bench, monkeypatch: Any) -> None:
    first, second = bench.put(), bench.put()

    def interrupted(location: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "spill", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bench.spilling.free_memory(1)
    assert bench.spilling.free_memory(1)
    assert bench.spilled(first, second) == [True, False]
