"""Leaving out rows by ids that are kept in the object store."""

from __future__ import annotations

import datetime
import pickle
import random
from decimal import Decimal

import pyarrow as pa
import pytest

import skate
from skate.data._io.known_ids import WithoutIds, alike, by_number, without_ids

pytestmark = pytest.mark.usefixtures("engine")
_DAY = datetime.datetime(2026, 1, 1)


def column(values: object, type_: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, type_)])


def left(step: WithoutIds, ids: pa.ChunkedArray) -> list[object]:
    (block,) = step(iter([pa.table({"id": ids})]))
    found: list[object] = block["id"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("known", "ids", "expected"),
    [
        (column([5, -1, 3]), column([-1, 0, 3, 4]), [0, 4]),
        (column([2**62, 2**62 + 2]), column([2**62, 2**62 + 1]), [2**62 + 1]),
        (column([2**64 - 1], pa.uint64()), column([2**64 - 1, 1], pa.uint64()), [1]),
        (column(["b", "ä"]), column(["a", "b", "ä", ""]), ["a", ""]),
        (column([b"\x00", b"x"]), column([b"x", b"y"]), [b"y"]),
        (column([1, None]), column([None, 0, 1]), [0]),
        (column([1]), column([None, 0, 1]), [None, 0]),
        (column(["x", None]), column([None, "y"]), ["y"]),
        (column([1.5, 2.0]), column([1.5, 2.5]), [2.5]),
        (column([_DAY]), column([_DAY, _DAY.replace(day=2)]), [_DAY.replace(day=2)]),
        (column([Decimal("1.10")]), column([Decimal("1.10"), Decimal("1.20")]), [Decimal("1.20")]),
        (column([True]), column([True, False]), [False]),
        (column(["3"]), column([3, 4]), [4]),
        (column([7, 7, 7]), column([7, 8]), [8]),
        (column([1]), column([2, 3]), [2, 3]),
    ],
)  # fmt: skip
def test_rows_that_are_known_are_left_out(known, ids, expected):
    assert left(without_ids("id", known), ids) == expected


def test_ids_in_many_chunks():
    values = random.Random(0).sample(range(10_000), 5_000)
    known = pa.chunked_array([values[:1000], values[1000:1001], values[1001:]])
    assert left(without_ids("id", known), column(range(10_000))) == sorted(
        set(range(10_000)) - set(values)
    )


def test_no_rows():
    step = without_ids("id", column([1]))
    assert left(step, column([], pa.int64())) == []


def test_other_types():
    with pytest.raises(TypeError, match="another checkpoint_path"):
        left(without_ids("id", column([1])), column(["one"]))


@pytest.mark.parametrize("many", [range(100_000), [f"id-{i}" for i in range(100_000)]])
def test_a_block_is_compared_with_the_ids_that_it_may_have(many):
    known, own = by_number(column(many)), column(many[500:510])
    assert sorted(alike(known, own).to_pylist()) == list(many[500:510])


def test_a_step_travels_without_the_ids():
    step = without_ids("id", column(range(100_000)))
    chain = skate.put(step)
    assert left(skate.get(chain), column([1, 100_001])) == [100_001]
    assert len(pickle.dumps(step)) < 2000
