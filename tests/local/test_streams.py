"""Items between a streaming task and its consumer."""

from __future__ import annotations

from skate.engine.local.hub.streams import ItemStream


def test_items_are_ready_as_they_come() -> None:
    stream = ItemStream()
    assert not stream.ready(0)
    stream.add(0, 100)
    assert stream.ready(0)
    assert not stream.ready(1)
    assert not stream.ended(1)


def test_consumers_are_told_once_when_their_item_comes() -> None:
    stream = ItemStream()
    told: list[int] = []
    for index in (1, 0, 1):
        stream.when_ready(index, lambda index=index: told.append(index))  # type: ignore[misc]
    stream.add(0, 100)
    assert told == [0]
    stream.add(1, 101)
    assert told == [0, 1, 1]
    stream.add(2, 102)
    stream.finish()
    assert told == [0, 1, 1]


def test_what_is_ready_is_told_at_once() -> None:
    stream = ItemStream()
    stream.add(0, 100)
    told: list[str] = []
    stream.when_ready(0, lambda: told.append("item"))
    stream.finish()
    stream.when_ready(1, lambda: told.append("end"))
    assert told == ["item", "end"]


def test_the_end_is_told_to_whoever_waits_beyond_it() -> None:
    stream = ItemStream()
    told: list[int] = []
    stream.when_ready(3, lambda: told.append(3))
    stream.add(0, 100)
    stream.finish()
    assert told == [3]
    assert stream.ended(1)
    assert not stream.ended(0)  # an item, be it taken or not


def test_a_consumer_may_ask_again_while_it_is_told() -> None:
    stream = ItemStream()
    told: list[int] = []

    def ask(index: int) -> None:
        stream.when_ready(index, lambda: (told.append(index), ask(index + 1))[0])  # type: ignore[func-returns-value]

    ask(0)
    stream.add(0, 100)
    stream.add(1, 101)
    assert told == [0, 1]


def test_items_that_a_retried_task_yields_again_change_nothing() -> None:
    stream = ItemStream()
    for index in range(3):
        stream.add(index, 100 + index)
    stream.items.pop(2)
    stream.add(0, 100)
    assert stream.produced == 3
