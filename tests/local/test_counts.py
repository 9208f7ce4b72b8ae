"""Reference counts: what is freed, when, and what goes with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from skate.engine.local.hub.counts import Counts
from skate.engine.local.objects import INLINE, STORED, ObjectEntry
from tests.local.fakes import new_worker


class Table:
    """Counts with a record of the hub's reactions."""

    def __init__(self) -> None:
        self.entries: dict[int, ObjectEntry] = {}
        self.freed: list[Any] = []
        self.ended: list[int] = []
        self.less_wanted: list[int] = []
        self.unread: list[Any] = []
        self.counts = Counts(
            self.entries,
            lambda entry: self.freed.append(entry.data),
            lambda entry: self.ended.append(entry.id),
            lambda entry: self.less_wanted.append(entry.id),
            self.unread.append,
        )

    def value(self, id: int, *contained: int, kind: int = INLINE) -> ObjectEntry:
        """An object that one task has among its arguments."""
        self.counts.add((id, *contained))
        entry = self.entries[id]
        entry.kind, entry.data, entry.contained = kind, f"data {id}", contained
        return entry


def test_freed_at_zero_and_not_before() -> None:
    table = Table()
    table.value(1, kind=STORED)
    table.counts.add((1,))
    table.counts.drop((1,))
    assert 1 in table.entries
    table.counts.drop((1,))
    assert table.entries == {}
    assert table.freed == ["data 1"]
    table.counts.drop((1,))  # unknown by now
    assert table.freed == ["data 1"]


def test_what_is_inside_lives_as_long_as_what_contains_it() -> None:
    table = Table()
    table.value(1, kind=STORED)
    table.value(2, 1, 1)  # twice inside
    table.value(3, 1)
    table.counts.drop((1,))
    table.counts.drop((2,))
    assert 1 in table.entries
    table.counts.drop((3,))
    assert table.entries == {}
    assert table.freed == ["data 1"]


def test_a_long_chain_is_freed_without_recursion() -> None:
    table = Table()
    length = 100_000
    table.value(0, kind=STORED)
    for id in range(1, length):
        table.value(id, id - 1)
        table.counts.drop((id - 1,))
    assert len(table.entries) == length
    table.counts.drop((length - 1,))
    assert table.entries == {}
    assert table.freed == ["data 0"]


def test_holding_and_releasing_twice_counts_once() -> None:
    table = Table()
    worker, other = new_worker(), new_worker()
    table.counts.hold(worker, (1, 1))
    table.counts.hold(worker, (1,))
    table.counts.hold(other, (1,))
    assert table.entries[1].count == 2
    table.counts.release(worker, (1,))
    table.counts.release(worker, (1, 1))
    assert table.entries[1].count == 1
    table.counts.release(other, (1,))
    assert table.entries == {}
    assert worker.holds == other.holds == set()


def test_an_actor_does_not_keep_itself_alive() -> None:
    table = Table()
    worker = new_worker()
    actor: Any = SimpleNamespace(id=7)
    worker.actor = actor
    table.counts.hold(worker, (7, 8))
    assert worker.holds == {8}
    table.counts.release(worker, (7, 8))
    assert 8 not in table.entries


def test_an_object_may_be_held_before_its_value_is_known() -> None:
    table = Table()
    worker = new_worker()
    table.counts.hold(worker, (7,))
    assert table.entries[7].kind is None
    assert table.counts.entry(7) is table.entries[7]


def test_what_stands_behind_an_object_is_told_of_its_end() -> None:
    table = Table()
    behind: Any = object()
    table.value(1).task = behind
    table.value(2).stream = behind
    table.value(3)
    table.counts.drop((1, 2, 3))
    assert table.ended == [1, 2]
