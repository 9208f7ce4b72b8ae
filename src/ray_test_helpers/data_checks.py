"""`ray.data.tests.util` and `test_util`: small functions and actors of tests."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import skate


class _Counter:
    """Counts calls."""

    def __init__(self) -> None:
        self.count = 0

    def increment(self) -> None:
        self.count += 1

    def get(self) -> int:
        return self.count

    def reset(self) -> None:
        self.count = 0


class _ConcurrencyCounter:
    """How many callers are between `inc` and `decr`, and how many were at most."""

    def __init__(self) -> None:
        self.concurrency = 0
        self.max_concurrency = 0

    def inc(self) -> int:
        self.concurrency += 1
        self.max_concurrency = max(self.max_concurrency, self.concurrency)
        return self.concurrency

    def decr(self) -> int:
        self.concurrency -= 1
        return self.concurrency

    def get_max_concurrency(self) -> int:
        return self.max_concurrency


Counter = skate.remote(_Counter)
ConcurrencyCounter = skate.remote(num_cpus=0)(_ConcurrencyCounter)


@contextmanager
def gen_bin_files(n: int) -> Iterator[tuple[str, list[str]]]:
    """Make a folder with so many files, each of 500 times its number."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{number}.bin") for number in range(n)]
        for number, path in enumerate(paths):
            with open(path, "w") as file:
                file.write(str(number) * 500)
        yield folder, paths


def column_udf(col: str, udf: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function on rows or batches that changes one column and keeps that only."""

    @functools.wraps(udf)
    def on_row(row: Any) -> Any:
        return {col: udf(row[col])}

    return on_row


def column_udf_class(col: str, udf: Callable[[Any], Any]) -> type:
    """Return the same as a class."""

    class OnRow:
        def __call__(self, row: Any) -> Any:
            return {col: udf(row[col])}

    return OnRow


def named_values(col_names: str | list[str], tuples: Sequence[Any]) -> list[dict[str, Any]]:
    """Make rows of values, one per name, or of one value each."""
    if isinstance(col_names, list):
        return [dict(zip(col_names, values, strict=False)) for values in tuples]
    return [{col_names: value} for value in tuples]


def extract_values(col_name: str, tuples: Sequence[Any]) -> list[Any]:
    """Return one column of rows."""
    return [row[col_name] for row in tuples]


def assert_exprs_equal(actual: Sequence[Any], expected: Sequence[Any]) -> None:
    """Assert that two lists hold the same expressions."""
    pairs = zip(actual, expected, strict=True)
    assert all(one.structurally_equals(other) for one, other in pairs), (actual, expected)
