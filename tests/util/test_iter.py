"""Iterators whose items are made by actors."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import skate
from skate.util.iter import (
    LocalIterator,
    ParallelIteratorWorker,
    from_actors,
    from_items,
    from_iterators,
    from_range,
)
from tests.support import parallel

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.engines("inline", "local")]


def doubled(items: Iterable[int]) -> Iterator[int]:
    return (item * 2 for item in items)


def test_where_items_come_from() -> None:
    assert list(from_items([1, 2, 3, 4]).gather_sync()) == [1, 2, 3, 4]
    assert list(from_range(5).gather_sync()) == [0, 2, 1, 3, 4]
    assert list(from_iterators([[1, 2], lambda: iter([3])]).gather_sync()) == [1, 3, 2]
    assert from_items([1, 2], repeat=True).take(5) == [1, 2, 1, 2, 1]
    worker = skate.remote(ParallelIteratorWorker)
    assert from_actors([worker.remote([1], False), worker.remote([2], False)]).take(9) == [1, 2]
    with pytest.raises(TypeError, match="gather_sync"):
        iter(from_range(3))


def test_what_happens_to_items_in_the_actors_and_here() -> None:
    items = from_range(6, num_shards=1)
    for made in (items, items.gather_sync()):
        source: Any = made
        found = source.for_each(lambda x: x + 1).filter(lambda x: x % 2).transform(doubled)
        assert found.take(9) == [2, 6, 10]
        assert source.batch(4).take(9) == [[0, 1, 2, 3], [4, 5]]
        assert source.batch(4).flatten().take(9) == [0, 1, 2, 3, 4, 5]
        assert source.combine(lambda x: [x] * (x > 3)).take(9) == [4, 5]
        assert sorted(source.for_each(str, max_concurrency=2).take(9)) == list("012345")


def test_names_say_what_was_done() -> None:
    made = from_range(4).for_each(str)
    assert repr(made) == "ParallelIterator[from_range[4, shards=2].for_each()]"
    gathered = made.gather_async().batch(2)
    assert repr(gathered) == f"LocalIterator[{made!r}.gather_async().batch(2)]"


def test_an_order_by_chance_keeps_all_items_and_is_repeatable() -> None:
    made = from_range(20, num_shards=2).local_shuffle(shuffle_buffer_size=5, seed=1)
    first, again = list(made.get_shard(0)), list(made.get_shard(0))
    assert first == again != sorted(first)
    assert sorted(first) == list(range(10))


@pytest.mark.parametrize("milliseconds", [0, 20])
def test_other_shards(milliseconds: int) -> None:
    made = from_range(9, num_shards=3)
    parts = made.repartition(2, batch_ms=milliseconds)
    for _ in range(2):  # and once more, from the beginning
        assert [sorted(shard) for shard in parts.shards()] == [[0, 2, 3, 5, 6, 8], [1, 4, 7]]
    assert sorted(made.repartition(4).gather_async()) == list(range(9))
    assert made.select_shards([2]).take(9) == [6, 7, 8]
    assert made.union(from_items(["a"], 1)).num_shards() == 4
    assert list(from_iterators([[0, 1], [2]]).batch_across_shards()) == [[0, 2], [1]]


class TestPasses:
    """Each iteration is over all items, whoever else has begun one of the same actors."""

    def test_parts_after_one_that_was_left_early(self) -> None:
        parts = from_range(10, num_shards=2).repartition(2)
        for _ in range(3):
            assert len(parts.take(3)) == 3
        assert sorted(parts.gather_sync()) == list(range(10))
        assert sorted(parts.gather_async()) == list(range(10))

    def test_parts_beside_each_other(self) -> None:
        parts = from_range(10, num_shards=2).repartition(2)
        first, second = parts.gather_sync(), parts.gather_sync()
        assert [sorted(each) for each in zip(*zip(first, second, strict=True), strict=True)] == [
            list(range(10))
        ] * 2

    def test_parts_share_a_pass(self) -> None:
        seen = skate.remote(Tally).remote()
        source = from_range(6, num_shards=1).for_each(lambda x: skate.get(seen.add.remote(x)))
        parts = source.repartition(3).shards()
        assert [list(shard) for shard in parts] == [[0, 3], [1, 4], [2, 5]]
        assert skate.get(seen.all.remote()) == [0, 1, 2, 3, 4, 5]

    def test_one_part_in_several_tasks(self) -> None:
        @skate.remote
        def taken(items: Any) -> list[int]:
            return list(items)

        shard = from_range(6, num_shards=1).repartition(2).shards()[1]
        assert skate.get([taken.remote(shard) for _ in range(2)]) == [[1, 3, 5]] * 2

    @pytest.mark.parametrize("gathered", ["gather_sync", "gather_async"])
    def test_unions_of_the_same_actors(self, gathered: str) -> None:
        items = from_range(4, num_shards=2)
        both = items.for_each(lambda x: x * 10).union(items.for_each(lambda x: -x))
        assert sorted(getattr(both, gathered)()) == [-3, -2, -1, 0, 0, 10, 20, 30]

    @pytest.mark.parametrize("parts", [False, True])
    @pytest.mark.parametrize("gathered", ["gather_sync", "gather_async"])
    def test_shards_that_are_chosen_twice(self, gathered: str, parts: bool) -> None:
        items = from_range(4, num_shards=2)
        items = items.repartition(2) if parts else items
        expected = sorted([*items.get_shard(0)] * 2 + [*items.get_shard(1)])
        assert sorted(getattr(items.select_shards([0, 0, 1]), gathered)()) == expected

    def test_what_was_left_early_is_let_go(self) -> None:
        worker = skate.remote(Watched).remote([1, 2, 3], False)
        items = from_actors([worker])
        for _ in range(3):
            items.take(1)
        assert list(items.gather_sync()) == [1, 2, 3]
        gc.collect()  # which lets go of the iterators
        assert items.take(1) == [1]
        assert skate.get(worker.passes.remote()) == 1


class Tally:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def add(self, item: int) -> int:
        self.seen.append(item)
        return item

    def all(self) -> list[int]:
        return self.seen


class Watched(ParallelIteratorWorker):
    """Says how many passes it remembers."""

    def passes(self) -> int:
        return len(self._passes)


@parallel
def test_what_is_ready_comes_first(flag: Any) -> None:
    gate = flag("gate")

    def slow() -> Iterator[str]:
        gate.wait()
        yield "slow"

    quick = from_items(["quick", "quick"], 1)
    for both in (
        from_iterators([slow]).union(quick).gather_async(num_async=2),
        from_iterators([slow]).gather_async().union(quick.gather_async()),
    ):
        assert both.take(2) == ["quick", "quick"]
    gate.set()


def test_united_iterators_take_turns_and_share_what_they_count() -> None:
    def counted(x: int) -> int:
        metrics = LocalIterator.get_metrics()
        metrics.counters["seen"] += 1
        return x * 100 + metrics.counters["seen"]

    left, right = (from_items(items, 1).gather_sync() for items in ([1, 2, 3], [4]))
    both = left.for_each(counted).union(
        right.for_each(counted), deterministic=True, round_robin_weights=[2, 1]
    )
    assert list(both) == [101, 202, 403, 304]
    with pytest.raises(ValueError, match="while an iterator runs"):
        LocalIterator.get_metrics()


def test_copies_of_an_iterator() -> None:
    pairs, singles = from_range(3, num_shards=1).gather_sync().duplicate(2)
    assert list(pairs.batch(2).union(singles)) == [0, [0, 1], 1, 2, [2]]


def test_a_copy_goes_ahead_of_one_that_nobody_reads() -> None:
    first, _ = from_range(4, num_shards=1).gather_sync().duplicate(2)
    other = from_items([100], 1).gather_async()
    assert sorted(first.union(other)) == [0, 1, 2, 3, 100]


def test_the_actors_of_items() -> None:
    found = Counter(
        actor for actor, _ in from_items([1, 2, 3, 4]).gather_async().zip_with_source_actor()
    )
    assert sorted(found.values()) == [2, 2]


def test_iterators_are_sent_to_tasks() -> None:
    @skate.remote
    def taken(items: Any) -> list[int]:
        return list(items)

    made = from_range(3, num_shards=1).for_each(lambda x: -x)
    assert skate.get(taken.remote(made.gather_sync())) == [0, -1, -2]
    assert skate.get(taken.remote(made.get_shard(0))) == [0, -1, -2]


def test_what_cannot_be() -> None:
    made = from_range(2)
    wrong: list[Any] = [
        lambda: made.gather_async(num_async=0),
        lambda: made.gather_async(batch_ms=-1),
        lambda: made.get_shard(2),
        lambda: made.select_shards([]),
        lambda: made.union(made).select_shards([0]),
        lambda: made.gather_sync().duplicate(1),
        lambda: made.gather_sync().union([1]),
        lambda: made.gather_sync().union(made.gather_sync(), round_robin_weights=[1]),
        lambda: list(made.gather_sync().zip_with_source_actor()),
        lambda: from_items([], repeat=True).take(1),
    ]
    for one in wrong:
        with pytest.raises(ValueError, match=" "):
            one()
    with pytest.raises(TypeError):
        made.union([1])  # type: ignore[arg-type]
