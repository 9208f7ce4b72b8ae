"""Rows by key: a sorted dataset in which actors search."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

import skate
from skate.data._arrow.blocks import Block, Row, concat, rows_of

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

__all__ = ["RandomAccessDataset"]


class RandomAccessDataset:
    """Made by `Dataset.to_random_access_dataset(key)`: each actor holds a range of keys."""

    def __init__(self, ds: Dataset, key: str, num_workers: int) -> None:
        bundles = [bundle for bundle in ds.sort(key)._kept_bundles() if bundle.rows]
        share = max(1, -(-len(bundles) // num_workers))
        worker = skate.remote(_Searcher).options(num_cpus=0)
        self._firsts: list[Any] = []
        self._workers: list[Any] = []
        for start in range(0, len(bundles), share):
            group = bundles[start : start + share]
            first = group[0].get()[key][0].as_py()
            if first is not None:  # rows without a key come last
                self._firsts.append(first)
                self._workers.append(worker.remote(key, *(each.payload() for each in group)))
        self._asked: Counter[int] = Counter()

    def get_async(self, key: object) -> skate.ObjectRef[Any]:
        """Return a reference to the row with this key; to None if there is none."""
        number = self._number(key)
        if number is None:
            return skate.put(None)
        self._asked[number] += 1
        row: skate.ObjectRef[Any] = self._workers[number].find.remote([key], single=True)
        return row

    def multiget(self, keys: list[Any]) -> list[Row | None]:
        """Find the rows with these keys, in this order; None where there is none."""
        wanted: dict[int, list[int]] = {}
        for place, key in enumerate(keys):
            number = self._number(key)
            if number is not None:
                wanted.setdefault(number, []).append(place)
        self._asked.update(wanted.keys())
        refs = [
            self._workers[number].find.remote([keys[place] for place in places])
            for number, places in wanted.items()
        ]
        found: list[Row | None] = [None] * len(keys)
        for places, rows in zip(wanted.values(), skate.get(refs), strict=True):
            for place, row in zip(places, rows, strict=True):
                found[place] = row
        return found

    def stats(self) -> str:
        """Return how often actors were asked for rows, in words."""
        asked = [self._asked[number] for number in range(len(self._workers))] or [0]
        mean = sum(asked) // len(asked)
        return (
            f"RandomAccessDataset: {len(self._workers)} actors\n"
            f"- Accesses per worker: {min(asked)} min, {max(asked)} max, {mean} mean"
        )

    def _number(self, key: object) -> int | None:
        number = bisect_right(self._firsts, key) - 1
        return None if number < 0 else number


class _Searcher:
    """Some of the sorted rows; those without a key are at the end, and never found."""

    def __init__(self, key: str, *blocks: Block) -> None:
        self._block = concat(blocks)
        self._keys = self._block[key].drop_null().combine_chunks()

    def find(self, keys: list[object], single: bool = False) -> Any:
        rows = [self._row(key) for key in keys]
        return rows[0] if single else rows

    def _row(self, key: Any) -> Row | None:
        place = bisect_left(range(len(self._keys)), key, key=self._key_at)
        if place == len(self._keys) or self._key_at(place) != key:
            return None
        return next(rows_of(self._block.slice(place, 1), plain=False))

    def _key_at(self, place: int) -> object:
        return self._keys[place].as_py()
