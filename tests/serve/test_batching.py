"""Calls that are answered together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from skate import serve
from skate._core import notices
from skate.serve._application.specs import build
from skate.serve.exceptions import SkateServeError
from tests.support import PATIENCE


class Model:
    def __init__(self) -> None:
        self.batches: list[list[Any]] = []

    @serve.batch(max_batch_size=3, batch_wait_timeout_s=10)
    async def predict(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        return [item * 2 for item in items]

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=0)
    async def pairs(self, left: list[int], right: list[int]) -> list[int]:
        self.batches.append(left)
        return [a + b for a, b in zip(left, right, strict=True)]

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=10)
    async def lose_one(self, items: list[int]) -> list[int]:
        return items[1:]

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=10)
    async def fail(self, items: list[int]) -> list[int]:
        raise ValueError(f"for {items}")

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=10)
    async def count(self, limits: list[int]) -> AsyncIterator[list[Any]]:
        for number in range(max(limits)):
            yield [number if number < limit else StopIteration for limit in limits]

    @serve.batch(max_batch_size=1000, batch_size_fn=sum)
    async def weigh(self, items: list[int]) -> list[int]:
        return items


@pytest.mark.parametrize(("most", "lines"), [(2, 1), (3, 0)])
def test_batches_that_can_never_be_full_are_told(
    most: int, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notices, "_said", set())
    build(serve.deployment(max_ongoing_requests=most)(Model).bind(), "app", None)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    assert all("Model.predict have at most 2 items, not max_batch_size=3" in one for one in said)


def test_a_full_batch_does_not_wait() -> None:
    model = Model()

    async def main() -> list[int]:
        return list(await asyncio.gather(*(model.predict(x) for x in range(6))))

    assert asyncio.run(main()) == [0, 2, 4, 6, 8, 10]
    assert model.batches == [[0, 1, 2], [3, 4, 5]]


def test_an_incomplete_batch_waits_for_its_time() -> None:
    model = Model()
    Model.predict.set_batch_wait_timeout_s(0.01)
    try:
        assert asyncio.run(model.predict(1)) == 2
    finally:
        Model.predict.set_batch_wait_timeout_s(10)
    assert model.batches == [[1]]


def test_the_size_can_be_changed() -> None:
    model = Model()

    async def main() -> None:
        model.predict.set_max_batch_size(2)
        await asyncio.gather(*(model.predict(x) for x in range(4)))

    try:
        asyncio.run(main())
    finally:
        model.predict.set_max_batch_size(3)
    assert model.batches == [[0, 1], [2, 3]]
    assert model.predict._get_max_batch_size() == 3


def test_arguments_become_lists_each() -> None:
    model = Model()

    async def main() -> list[int]:
        return list(await asyncio.gather(model.pairs(1, 2), model.pairs(left=3, right=4)))

    assert asyncio.run(main()) == [3, 7]
    assert model.batches == [[1, 3]]


def test_instances_do_not_share_batches() -> None:
    one, other = Model(), Model()

    async def main() -> None:
        await asyncio.gather(
            *(one.predict(x) for x in range(3)), *(other.predict(x) for x in range(3))
        )

    asyncio.run(main())
    assert one.batches == other.batches == [[0, 1, 2]]


def test_errors_reach_every_caller() -> None:
    model = Model()

    async def main(method: Any) -> list[Any]:
        return list(await asyncio.gather(method(1), method(2), return_exceptions=True))

    failures = asyncio.run(main(model.fail))
    assert all(isinstance(error, ValueError) for error in failures)
    assert str(failures[1]) == "for [1, 2]"
    lost = asyncio.run(main(model.lose_one))
    assert all(isinstance(error, SkateServeError) for error in lost)
    assert "it was given 2, and returned a list of length 1" in str(lost[0])


def test_batches_stream() -> None:
    model = Model()

    async def collect(limit: int) -> list[int]:
        return [number async for number in model.count(limit)]

    async def main() -> list[list[int]]:
        return list(await asyncio.gather(collect(3), collect(1)))

    assert asyncio.run(main()) == [[0, 1, 2], [0]]


def test_a_stream_that_fails_after_another_has_ended() -> None:
    @serve.batch(max_batch_size=2, batch_wait_timeout_s=10)
    async def fail_late(items: list[int]) -> AsyncIterator[list[Any]]:
        yield [0, StopIteration]
        raise ValueError("late")

    async def collect(item: int) -> list[int]:
        return [number async for number in fail_late(item)]

    async def main() -> list[Any]:
        both = asyncio.gather(collect(0), collect(1), return_exceptions=True)
        return list(await asyncio.wait_for(both, PATIENCE))

    error, ended = asyncio.run(main())
    assert isinstance(error, ValueError)
    assert ended == []


def test_a_cancelled_call_is_left_out() -> None:
    model = Model()

    async def main() -> int:
        gone = asyncio.create_task(model.predict(1))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        results = await asyncio.gather(model.predict(2), model.predict(3))
        return int(sum(results))

    assert asyncio.run(main()) == 10
    assert model.batches == [[2, 3]]


def test_batches_run_one_at_a_time_unless_allowed() -> None:
    at_once, most = 0, 0

    async def work(items: list[int]) -> list[int]:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1
        return items

    async def main(batched: Any) -> None:
        await asyncio.gather(*(batched(x) for x in range(8)))

    asyncio.run(main(serve.batch(max_batch_size=1)(work)))
    assert most == 1
    asyncio.run(main(serve.batch(max_batch_size=1, max_concurrent_batches=4)(work)))
    assert most == 4


def test_a_function_says_how_large_items_are() -> None:
    batches: list[list[str]] = []

    @serve.batch(
        max_batch_size=4,
        batch_wait_timeout_s=0.01,
        batch_size_fn=lambda words: sum(map(len, words)),
    )
    async def spell(words: list[str]) -> list[str]:
        batches.append(words)
        return words

    async def main() -> list[Any]:
        words = ["aa", "bb", "ccc", "too long"]
        return list(await asyncio.gather(*map(spell, words), return_exceptions=True))

    *fine, error = asyncio.run(main())
    assert fine == ["aa", "bb", "ccc"]
    assert batches == [["aa", "bb"], ["ccc"]]
    assert isinstance(error, RuntimeError)
    assert "greater than max_batch_size" in str(error)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_batch_size": 0}, ValueError),
        ({"max_batch_size": "1"}, TypeError),
        ({"batch_wait_timeout_s": -1}, ValueError),
        ({"batch_wait_timeout_s": "1"}, TypeError),
        ({"max_concurrent_batches": 0}, ValueError),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(arguments))):
        serve.batch(**arguments)
    with pytest.raises(TypeError, match="async def"):
        serve.batch(lambda items: items)
