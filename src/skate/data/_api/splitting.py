"""Dataset: divided into several, by number, by rows or by share, now or while it streams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skate._core.argument_checks import wrong_type
from skate._core.plain_errors import methods_failing_plainly
from skate.data._api.base import check_blocks, check_unused
from skate.data._api.consuming import Consuming
from skate.data._arrow.blocks import Block, check_columns
from skate.data._arrow.compute import pc
from skate.data._arrow.dictionaries import without_dictionary
from skate.data._arrow.hashing import hashed
from skate.data._execution.bundles import Bundle, BundleBuffer, bundle_of, table_of
from skate.data._expressions.expression import Expr, col
from skate.data._expressions.generated import random
from skate.data._plan import nodes as plan
from skate.data._settings.context import DataContext

if TYPE_CHECKING:
    from skate._core.arrays import Array
    from skate.data.dataset import Dataset, MaterializedDataset
    from skate.data.iterator import DataIterator


@methods_failing_plainly
class Splitting(Consuming):
    """Parts keep the order of rows."""

    def split(
        self, n: int, *, equal: bool = False, locality_hints: Sequence[object] | None = None
    ) -> list[MaterializedDataset]:
        """Split the rows into parts of about equal size.

        Args:
            n: How many parts.
            equal: Whether they are of exactly equal size, dropping what does not divide.
            locality_hints: One actor per part, or None; on one machine all are near.

        Returns:
            The parts, whose rows are computed already.

        Raises:
            ValueError: If `n` is below 1, or there are not `n` hints.

        Example:
            >>> [part.count() for part in skate.data.range(6).split(3)]
            [2, 2, 2]
        """
        check_blocks("split", n)
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(f"{n} parts need {n} locality_hints; got {len(locality_hints)}")
        kept = self.materialize()
        total = kept.count()
        if equal:
            return _parts(kept, [total // n] * n)
        ends = [total * number // n for number in range(n + 1)]
        return _parts(kept, [b - a for a, b in pairwise(ends)])

    def split_at_indices(self, indices: Sequence[int]) -> list[MaterializedDataset]:
        """Split the rows at row numbers.

        Args:
            indices: Where parts begin, ascending; the rows before the first are a part, too.

        Returns:
            The parts, one more than indices, whose rows are computed already.

        Raises:
            ValueError: If there are no indices, or they are not ascending from 0 on.

        Example:
            >>> [part.count() for part in skate.data.range(10).split_at_indices([2, 5])]
            [2, 3, 5]
        """
        ordered = list(indices)
        if not all(isinstance(index, Integral) for index in ordered):
            raise wrong_type("indices", indices, "a list of whole numbers")
        if not ordered or ordered != sorted(ordered) or ordered[0] < 0:
            raise ValueError(
                "indices must be sorted, and positive or 0, and there must be one at least; "
                f"got {ordered}"
            )
        kept = self.materialize()
        total = kept.count()
        ends = [0, *(min(index, total) for index in ordered), total]
        return _parts(kept, [b - a for a, b in pairwise(ends)])

    def split_proportionately(self, proportions: Sequence[float]) -> list[MaterializedDataset]:
        """Split the rows into parts with given shares.

        Args:
            proportions: The shares, whose sum is below 1; a last part has the rest.

        Returns:
            The parts, one more than shares, whose rows are computed already.

        Raises:
            ValueError: If shares are not positive, add up to 1 or more, or leave a part without
                rows.

        Example:
            >>> [part.count() for part in skate.data.range(10).split_proportionately([0.2, 0.5])]
            [2, 5, 3]
        """
        if not proportions or min(proportions) <= 0 or sum(proportions) >= 1:
            raise ValueError(
                f"proportions must be positive, and their sum less than 1; got {list(proportions)}"
            )
        kept = self.materialize()
        total = kept.count()
        ends = [int(share + 1e-9) for share in np.cumsum(proportions) * total]
        sizes = [b - a for a, b in pairwise([0, *_apart(ends), total])]
        if min(sizes) < 1:
            raise ValueError(f"{total} rows are too few for the proportions {list(proportions)}")
        return _parts(kept, sizes)

    def train_test_split(
        self,
        test_size: int | float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        stratify: str | None = None,
    ) -> tuple[MaterializedDataset, MaterializedDataset]:
        """Split the rows into a part for training and one for testing.

        Args:
            test_size: The share of the rows for testing, or their number.
            shuffle: Whether to mix the rows first.
            seed: Makes the order the same every time, with `shuffle`.
            stratify: A column whose values are to be equally frequent in both; not with `shuffle`.

        Returns:
            The two parts, whose rows are computed already.

        Raises:
            ValueError: If both `shuffle` and `stratify` are given, or `test_size` does not fit.

        Example:
            >>> train, test = skate.data.range(8).train_test_split(test_size=0.25)
            >>> train.count(), test.count()
            (6, 2)
        """
        rows = self._with(self._plan)
        if stratify is not None:
            if shuffle:
                raise ValueError(
                    "Cannot specify both 'shuffle=True' and 'stratify'; shuffle first: "
                    "ds.random_shuffle().train_test_split(..., stratify=...)"
                )
            return _stratified(rows, stratify, test_size)
        if shuffle:
            rows = rows.random_shuffle(seed=seed)
        done = rows.materialize()
        total = done.count()
        train, test = done.split_at_indices([total - _test_rows(test_size, total)])
        return train, test

    def streaming_train_test_split(
        self,
        test_size: float,
        *,
        split_type: str = "random",
        hash_column: str | None = None,
        seed: int | None = None,
        **ray_remote_kwargs: object,
    ) -> tuple[Dataset, Dataset]:
        """Split the rows as `train_test_split` does, lazily, for more than fit into memory.

        Each part executes the plan; for "random" the rows must come in the same order both times.

        Args:
            test_size: The share of the rows for testing, between 0 and 1.
            split_type: "random": each row is for testing with the probability `test_size`; "hash":
                if the hash of a column says so.
            hash_column: That column.
            seed: Makes the choice the same every time, for "random".
            **ray_remote_kwargs: Without effect: Arrow decides in this process.

        Returns:
            The two parts.

        Raises:
            ValueError: If an argument has no meaning, or does not go with `split_type`.

        Example:
            >>> train, test = skate.data.range(10).streaming_train_test_split(0.3, seed=1)
            >>> train.count() + test.count()
            10
        """
        own = ("test_size", "split_type", "hash_column", "seed")
        check_unused("streaming_train_test_split", own, ray_remote_kwargs)
        if not 0 < test_size < 1:
            raise ValueError(f"test_size must be between 0 and 1, as a share; got {test_size}")
        if split_type not in ("random", "hash"):
            raise ValueError(
                f"Invalid split type: {split_type}; split_type takes 'random' or 'hash'"
            )
        if split_type == "hash" and hash_column is None:
            raise ValueError("hash_column is required for hash split: name a column")
        if split_type == "hash" and seed is not None:
            raise ValueError("seed is not supported for hash split, which draws nothing")
        if split_type == "random" and hash_column is not None:
            raise ValueError(
                "hash_column is not supported for random split; say split_type='hash'"
            )
        return _by_draw(self._with(self._plan), test_size, hash_column, seed)

    def streaming_split(
        self, n: int, *, equal: bool = False, locality_hints: Sequence[object] | None = None
    ) -> list[DataIterator]:
        """Return iterators that share one execution, for consumers in parallel.

        Each epoch starts when all of them ask for it.

        Args:
            n: How many.
            equal: Whether all get the same number of rows, dropping what does not divide.
            locality_hints: One node per iterator, or None; here all are near.

        Returns:
            The iterators, which can be sent to other processes.

        Raises:
            ValueError: If there are not `n` hints.
        """
        from skate.data.iterator import split_iterators

        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(f"{n} parts need {n} locality_hints; got {len(locality_hints)}")
        return split_iterators(self, n, "drop" if equal else "keep")


DRAW = "__skate_draw"


def _by_draw(
    rows: Dataset, test_size: float, hash_column: str | None, seed: int | None
) -> tuple[Dataset, Dataset]:
    """Split by a number from 0 to 1 for each row, which is the same in both datasets."""
    if hash_column is not None:
        text = f"hash({hash_column!r})"
        number = Expr(lambda block: _hash_draws(block, hash_column), text, ())
    else:
        chosen = seed if seed is not None else int(np.random.default_rng().integers(1 << 62))
        number = random(seed=chosen, reseed_after_execution=False)
    drawn = rows.with_column(DRAW, number)
    train = drawn.filter(expr=col(DRAW) >= test_size).drop_columns([DRAW])
    return train, drawn.filter(expr=col(DRAW) < test_size).drop_columns([DRAW])


def _hash_draws(block: Block, column: str) -> pa.Array:
    check_columns([column], block.column_names)
    return pa.array(hashed(block, [column], 1 << 32) / float(1 << 32))


def _parts(kept: MaterializedDataset, sizes: Sequence[int]) -> list[MaterializedDataset]:
    from skate.data.dataset import MaterializedDataset

    schema = kept.schema()
    arrow = None if schema is None else schema.base_schema
    parts = []
    start = 0
    for size in sizes:
        inside = _between(_bundles_of(kept), start, start + size)
        parts.append(MaterializedDataset(plan.Input(inside, arrow), kept._context.copy()))
        start += size
    return parts


def _bundles_of(kept: MaterializedDataset) -> Sequence[Bundle]:
    assert isinstance(kept._plan, plan.Input)
    return kept._plan.bundles


def _between(bundles: Sequence[Bundle], start: int, stop: int) -> tuple[Bundle, ...]:
    """Take the rows from start to stop, as slices of the bundles."""
    found = []
    place = 0
    for bundle in bundles:
        first, last = max(start - place, 0), min(stop - place, bundle.rows)
        if first < last:
            found.append(bundle.slice(first, last - first))
        place += bundle.rows
    return tuple(found)


def _test_rows(test_size: float, total: int) -> int:
    if isinstance(test_size, bool) or not isinstance(test_size, (int, float)):
        raise TypeError(f"test_size takes a number; got {test_size!r}")
    if isinstance(test_size, float):
        if not 0 < test_size < 1:
            raise ValueError(f"test_size as a share lies between 0 and 1; got {test_size}")
        return int(np.ceil(total * test_size))
    if not 0 < test_size < total:
        raise ValueError(f"test_size must be less than the {total} rows and positive: {test_size}")
    return int(test_size)


def _stratified(
    rows: Dataset, column: str, test_size: float
) -> tuple[MaterializedDataset, MaterializedDataset]:
    rows._check_column(column)
    bundles = _bundles_of(rows.materialize())
    labels = table_of(bundle_of(bundle.get().select([column])) for bundle in bundles)[column]
    test = _spread(labels, _test_rows(test_size, len(labels)))
    limit = rows._context.sort_memory_bytes
    halves = BundleBuffer(limit), BundleBuffer(limit)
    start = 0
    for bundle in bundles:
        mask = test[start : start + bundle.rows]
        for half, keep in zip(halves, (~mask, mask), strict=True):
            half.add(bundle_of(bundle.get().filter(pa.array(keep))))
        start += bundle.rows
    train, held_out = (_kept(half, rows._context.copy()) for half in halves)
    return train, held_out


def _kept(buffer: BundleBuffer, context: DataContext) -> MaterializedDataset:
    from skate.data.dataset import MaterializedDataset

    filled = tuple(bundle for bundle in buffer.bundles if bundle.rows)
    return MaterializedDataset(plan.Input(filled, buffer.empty().schema), context)


def _spread(labels: pa.ChunkedArray, count: int) -> Array:
    """Make a mask of `count` rows, the last ones of each label, in proportion to the labels: whole
    rows first, and one more where most of a row is missing."""
    codes = pc.dictionary_encode(
        without_dictionary(labels).combine_chunks(), null_encoding="encode"
    )
    numbers = codes.indices.to_numpy()
    sizes = np.bincount(numbers)
    shares = sizes * count / len(numbers)
    wanted = shares.astype(np.int64)
    short = np.argsort(wanted - shares, kind="stable")[: count - wanted.sum()]
    wanted[short] += 1
    by_label = np.argsort(numbers, kind="stable")
    left_in_label = np.repeat(sizes.cumsum(), sizes) - np.arange(len(numbers))
    mask = np.zeros(len(numbers), bool)
    mask[by_label] = left_in_label <= np.repeat(wanted, sizes)
    return mask


def _apart(ends: Sequence[int]) -> list[int]:
    """Move ends of parts that coincide apart, with all before them, so that no part is empty."""
    moved = list(ends)
    for place in range(len(moved) - 2, -1, -1):
        if moved[place] >= moved[place + 1]:
            moved[: place + 1] = [end - 1 for end in moved[: place + 1]]
    return moved
