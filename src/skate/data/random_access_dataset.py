"""Rows by key: a sorted dataset in which actors search."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import skate
from skate.data._blocks import Block, Row, concat, rows_of

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

__all__ = ["RandomAccessDataset"]


class RandomAccessDataset:
    """Made by `Dataset.to_random_access_dataset(key)`: each actor holds a range of keys."""

    def __init__(self, ds: Dataset, key: str, num_workers: int) -> None:
        blocks = [block for block in ds.sort(key).materialize()._blocks() if block.num_rows]
        share = max(1, -(-len(blocks) // num_workers))
        groups = [blocks[n : n + share] for n in range(0, len(blocks), share)]
        self._firsts = [group[0][key][0].as_py() for group in groups]
        worker = skate.remote(_Searcher).options(num_cpus=0)
        self._workers = [worker.remote(concat(group), key) for group in groups]
        self._asked: Counter[int] = Counter()

    def get_async(self, key: Any) -> skate.ObjectRef[Any]:
        """A reference to the row with this key; to None if there is none."""
        number = self._number(key)
        if number is None:
            return skate.put(None)
        return self._workers[number].find.remote([key], single=True)  # type: ignore[no-any-return]

    def multiget(self, keys: list[Any]) -> list[Row | None]:
        """The rows with these keys, in this order; None where there is none."""
        wanted: dict[int, list[int]] = {}
        for place, key in enumerate(keys):
            number = self._number(key)
            if number is not None:
                wanted.setdefault(number, []).append(place)
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
        """How many rows each actor was asked for."""
        asked = ", ".join(str(self._asked[n]) for n in range(len(self._workers)))
        return f"RandomAccessDataset: {len(self._workers)} actors, asked for {asked} rows"

    def _number(self, key: Any) -> int | None:
        number = bisect_right(self._firsts, key) - 1
        if number < 0:
            return None
        self._asked[number] += 1
        return number


class _Searcher:
    def __init__(self, block: Block, key: str) -> None:
        self._block = block
        self._keys = block[key].combine_chunks()

    def find(self, keys: list[Any], single: bool = False) -> Any:
        places = pc.index_in(pa.array(keys, self._keys.type), value_set=self._keys).to_pylist()
        rows = [None if place is None else self._row(place) for place in places]
        return rows[0] if single else rows

    def _row(self, place: int) -> Row:
        return next(rows_of(self._block.slice(place, 1), plain=False))
