"""Parts of a stream for several consumers: who gets which rows, epoch after epoch."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import skate
import skate.data
from skate.data import iterator

pytestmark = pytest.mark.usefixtures("engine")


inline_only = pytest.mark.engines("inline")


@skate.remote
def rows_of_part(part: Any) -> int:
    return sum(len(batch["id"]) for batch in part.iter_batches(batch_size=1))


@skate.remote
class Consumer:
    def __init__(self, part: Any) -> None:
        self.batches = iter(part.iter_batches(batch_size=1))

    def next(self) -> int:
        return int(next(self.batches)["id"][0])


@pytest.mark.engines("local")
class TestReaders:
    def test_a_second_reader_of_a_part_is_an_error(self) -> None:
        parts = skate.data.range(100).streaming_split(2, equal=True)
        first, second = (Consumer.options(num_cpus=0).remote(part) for part in parts)
        skate.get([first.next.remote(), second.next.remote()])
        intruder = Consumer.options(num_cpus=0).remote(parts[0])
        with pytest.raises(ValueError, match="part 0 of a split in 2 is read by two"):
            skate.get(intruder.next.remote(), timeout=60)
        assert skate.get(first.next.remote(), timeout=60) >= 0

    def test_tasks_after_each_other_read_an_epoch_each(self) -> None:
        parts = skate.data.range(10).streaming_split(2, equal=True)
        for _ in range(3):
            counts = skate.get([rows_of_part.remote(part) for part in parts], timeout=60)
            assert counts == [5, 5]

    @pytest.mark.parametrize("blocks", [1, 2, 8])
    def test_nobody_starves_beside_a_fast_reader(self, blocks: int) -> None:
        rows = skate.data.range(64, override_num_blocks=blocks).materialize()
        slow, fast = rows.streaming_split(2, equal=False)
        reader = Consumer.options(num_cpus=0).remote(slow)
        begun = reader.next.remote()
        count = skate.get(rows_of_part.remote(fast), timeout=60)
        assert skate.get(begun, timeout=60) >= 0
        assert 1 <= count < 64


@inline_only
def test_parts_that_cannot_be_read_side_by_side(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.2)
    first, _ = skate.data.range(10).streaming_split(2, equal=True)
    read = skate.remote(lambda part: [row["id"] for row in part.iter_rows()])
    with pytest.raises(RuntimeError, match=r"part 1 .* the inline engine runs one task after"):
        skate.get(read.remote(first))


@inline_only
def test_parts_that_one_thread_reads_one_after_the_other(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.2)
    first, _ = skate.data.range(10).streaming_split(2)
    with pytest.raises(RuntimeError, match=r"part 1 .* is not read, and cannot be"):
        list(first.iter_rows())


@inline_only
def test_a_part_that_is_not_read_is_named(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.2)
    warned = threading.Event()
    texts = []

    def show(text, **options):
        texts.append(text)
        warned.set()

    monkeypatch.setattr(iterator.warnings, "warn", show)
    first, second = skate.data.range(10).streaming_split(2, equal=True)
    counts = []
    thread = threading.Thread(target=lambda: counts.append(len(list(first.iter_rows()))))
    thread.start()
    assert warned.wait(60)
    assert len(list(second.iter_rows())) == 5
    thread.join(60)
    assert counts == [5]
    assert texts == ["part 1 of a split in 2 is not read, and others wait for it"]
