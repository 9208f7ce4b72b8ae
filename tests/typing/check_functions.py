"""What type checkers know of remote functions."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, TypeVar, cast

from typing_extensions import assert_type

import skate
from skate import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
from skate._facade.remote import RemoteFunction

T = TypeVar("T")


@skate.remote
def mix(a: int, b: str = "", *, c: float = 1.0) -> float:
    return a + len(b) + c


@skate.remote(num_cpus=1, max_retries=0, retry_exceptions=[OSError])
def total(*numbers: int) -> int:
    return sum(numbers)


@skate.remote(num_gpus=0.5)
def rows(n: int) -> Iterator[dict[str, Any]]:
    yield {"n": n}


@skate.remote
def sends(n: int) -> Generator[int, None, str]:
    yield n
    return ""


@skate.remote
async def later(n: int) -> AsyncIterator[int]:
    yield n


@skate.remote(num_returns=2)
def both(n: int) -> tuple[int, str]:
    return n, str(n)


@skate.remote(num_returns="dynamic")
def several(n: int) -> Iterator[int]:
    yield n


@skate.remote(num_returns=0)
def nothing(n: int) -> None: ...


@skate.remote
def ten(
    a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int, j: str
) -> list[int]:
    return [a, b, c, d, e, f, g, h, i]


def plain(a: int, b: str) -> bytes:
    return b""


def takes(function: RemoteFunction[[int, str], float]) -> None:
    assert_type(function.remote(1, ""), ObjectRef[float])


def calls(number: ObjectRef[int], text: ObjectRef[str], flag: ObjectRef[bool]) -> None:
    assert_type(mix.remote(1), ObjectRef[float])
    assert_type(mix.remote(1, "b"), ObjectRef[float])
    assert_type(mix.remote(a=1, c=2.0), ObjectRef[float])
    assert_type(total.remote(), ObjectRef[int])
    assert_type(total.remote(1, 2, 3), ObjectRef[int])
    assert_type(skate.remote(plain).remote(1, b=""), ObjectRef[bytes])
    assert_type(skate.remote(functools.partial(plain, 1)).remote(""), ObjectRef[bytes])
    takes(mix)

    # references where values are expected
    assert_type(mix.remote(number), ObjectRef[float])
    assert_type(mix.remote(flag, "b", c=2.0), ObjectRef[float])
    assert_type(mix.remote(number, text), ObjectRef[float])
    assert_type(mix.remote(1, text, c=2.0), ObjectRef[float])
    assert_type(mix.remote(number, b="b"), ObjectRef[float])
    assert_type(mix.remote(1, b=cast(str, text)), ObjectRef[float])
    assert_type(total.remote(1, number, 2, number), ObjectRef[int])
    assert_type(ten.remote(1, number, 3, 4, number, 6, 7, 8, 9, text), ObjectRef[list[int]])
    assert_type(mix.remote(total.remote(1), skate.put("b")), ObjectRef[float])


def streams() -> None:
    assert_type(rows.remote(1), ObjectRefGenerator[dict[str, Any]])
    assert_type(sends.remote(1), ObjectRefGenerator[int])
    assert_type(later.remote(1), ObjectRefGenerator[int])
    for ref in rows.remote(1):
        assert_type(ref, ObjectRef[dict[str, Any]])
    assert_type(next(sends.remote(1)), ObjectRef[int])
    assert_type(sends.remote(1).completed(), ObjectRef[None])


async def awaited(number: ObjectRef[int]) -> None:
    assert_type(await number, int)
    async for ref in later.remote(1):
        assert_type(await ref, int)


def numbers_of_values(n: int) -> None:
    assert_type(both.remote(1), list[ObjectRef[Any]])
    assert_type(nothing.remote(1), None)
    assert_type(several.remote(1), ObjectRef[DynamicObjectRefGenerator[int]])
    assert_type(skate.get(several.remote(1)), DynamicObjectRefGenerator[int])
    for ref in skate.get(several.remote(1)):
        assert_type(ref, ObjectRef[int])
    assert_type(mix.options(num_returns=2).remote(1), list[ObjectRef[Any]])
    assert_type(mix.options(num_returns=0).remote(1), None)
    assert_type(mix.options(num_returns=n).remote(1), Any)
    assert_type(
        rows.options(num_returns="streaming").remote(1), ObjectRefGenerator[dict[str, Any]]
    )
    assert_type(
        rows.options(num_returns="dynamic").remote(1),
        ObjectRef[DynamicObjectRefGenerator[dict[str, Any]]],
    )


def options() -> None:
    assert_type(mix.options(num_cpus=2, resources={"disk": 1}).remote(1, "b"), ObjectRef[float])
    assert_type(mix.options(name="one", runtime_env={}).remote(a=1), ObjectRef[float])
    assert_type(mix.options(scheduling_strategy="SPREAD").remote(a=1), ObjectRef[float])


def values(number: ObjectRef[int], text: ObjectRef[str]) -> None:
    assert_type(skate.get(number), int)
    assert_type(skate.get([number, number], timeout=1.0), list[int])
    assert_type(skate.get([total.remote(i) for i in range(3)]), list[int])
    assert_type(skate.get(skate.put("a")), str)
    assert_type(skate.put([1]), ObjectRef[list[int]])
    ready, rest = skate.wait([number, number], num_returns=1, timeout=0)
    assert_type(ready, list[ObjectRef[int]])
    assert_type(rest, list[ObjectRef[int]])
    first, _ = skate.wait([rows.remote(1)])
    assert_type(first, list[ObjectRefGenerator[dict[str, Any]]])
    assert_type(number.future().result(), int)
    skate.cancel(number, force=True)
    skate.cancel(rows.remote(1))
    wider: list[ObjectRef[object]] = [text, number]
    assert_type(skate.get(wider), list[object])
