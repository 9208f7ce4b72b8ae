"""Iterators whose items are made by actors."""

from __future__ import annotations

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
