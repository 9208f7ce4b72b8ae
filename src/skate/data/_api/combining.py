"""Dataset: order, blocks, and several datasets together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate.data._api.base import Core, check_blocks, check_least, check_unused
from skate.data._execution.exchange import RandomizeBlocks, Repartition, Shuffle, Sort, Union, Zip
from skate.data._execution.joins import JOINS, Join, check_same_keys
from skate.data._execution.mixing import Mix, MixStoppingCondition, check_weights
from skate.data._plan.seeds import RandomSeedConfig, numpy_seed
from skate.data._relational.sql import SELF, queried
from skate.data.grouped_data import GroupedData, GroupTogether

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class Combining(Core):
    """Operations that look at all rows."""

    def union(self, *other: Dataset) -> Dataset:
        """The rows of this dataset, then those of the others."""
        return self._with(Union((self._plan, *(dataset._plan for dataset in other))))

    def zip(self, *other: Dataset) -> Dataset:
        """Rows side by side. Columns of the same name get a number: `item`, `item_1`."""
        return self._with(Zip((self._plan, *(dataset._plan for dataset in other))))

    def join(
        self,
        ds: Dataset,
        join_type: str = "inner",
        num_partitions: int = 1,
        on: str | Sequence[str] = ("id",),
        right_on: str | Sequence[str] | None = None,
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        *,
        partition_size_hint: int | None = None,
        aggregator_ray_remote_args: dict[str, Any] | None = None,
        validate_schemas: bool = False,
    ) -> Dataset:
        """Rows with equal keys. The result has `num_partitions` blocks, or more if the rows do not
        fit into memory. `validate_schemas` looks for the columns now. `partition_size_hint` and
        `aggregator_ray_remote_args` change nothing: they are for the actors of Ray's shuffle, and
        there are none here."""
        join_type = getattr(join_type, "value", join_type)  # Ray has an enumeration of them
        if join_type not in JOINS:
            raise ValueError(f"join_type takes {', '.join(map(repr, JOINS))}; got {join_type!r}")
        left = (on,) if isinstance(on, str) else tuple(on)
        right = left if right_on is None else right_on
        right = (right,) if isinstance(right, str) else tuple(right)
        if len(left) != len(right):
            raise ValueError(f"on and right_on differ in length: {left} and {right}")
        if validate_schemas:
            check_same_keys(self._with(self._plan).schema(), left, ds.schema(), right)
        suffixes = (left_suffix, right_suffix)
        node = Join((self._plan, ds._plan), join_type, left, right, *suffixes, num_partitions)
        return self._with(node)

    def sql(self, query: str, **others: Dataset) -> Dataset:
        """Return the result of a query in Polars' SQL, computed when it is used.

        Args:
            query: What to select; this dataset is the table `self`.
            others: More tables, by name.

        Raises:
            TypeError: If the query is no text, or a table no dataset.

        Example:
            >>> skate.data.range(5).sql("select sum(id) as total from self").take_all()
            [{'total': 10}]
        """
        return queried(query, {SELF: self, **others})

    def mix(
        self,
        *other: Dataset,
        weights: Sequence[float] | None = None,
        stopping_condition: MixStoppingCondition = MixStoppingCondition.STOP_ON_LONGEST_DROP,
    ) -> Dataset:
        """The blocks of this dataset and of others in turn, so that the numbers of rows are about
        as the `weights`, without them equal. It ends with the last dataset, or with the first
        that has no more rows."""
        parts = (self._plan, *(dataset._plan for dataset in other))
        shares = check_weights(weights, len(parts))
        return self._with(Mix(parts, shares, MixStoppingCondition(stopping_condition)))

    def repartition(
        self,
        num_blocks: int | None = None,
        target_num_rows_per_block: int | None = None,
        *,
        strict: bool = False,
        shuffle: bool = False,
        keys: Sequence[str] | None = None,
        sort: bool = False,
    ) -> Dataset:
        """The rows in `num_blocks` blocks, or in blocks of a number of rows. `shuffle` mixes them,
        `keys` puts rows with equal keys into one block, which is sorted by them in any case; rows
        that do not fit into memory make more such blocks. `strict` forbids smaller blocks than
        asked for, of which there is only the last here."""
        if (num_blocks is None) == (target_num_rows_per_block is None):
            raise ValueError(
                "Either `num_blocks` or `target_num_rows_per_block` must be set; got "
                f"{'none' if num_blocks is None else 'both'}"
            )
        if num_blocks is not None:
            check_blocks("num_blocks", num_blocks)
        if target_num_rows_per_block is not None:
            check_least("target_num_rows_per_block", target_num_rows_per_block, 1)
        if keys is not None:
            if num_blocks is None:
                raise ValueError("keys needs num_blocks")
            return self._with(GroupTogether((self._plan,), tuple(keys), num_blocks))
        if sort:
            raise ValueError("sort=True needs keys to sort by")
        if shuffle and num_blocks is None:
            raise ValueError(
                "shuffle=True needs num_blocks; `shuffle` must be False when "
                "target_num_rows_per_block is given"
            )
        if shuffle:
            return self.random_shuffle(num_blocks=num_blocks)
        return self._with(Repartition((self._plan,), num_blocks, target_num_rows_per_block))

    def random_shuffle(
        self,
        *,
        seed: int | RandomSeedConfig | None = None,
        num_blocks: int | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """All rows in random order, the same for the same seed; for other blocks of the same rows
        too, if they fit into memory. Arrow does it in this process, which needs no
        `ray_remote_args`."""
        check_unused("random_shuffle", ("seed", "num_blocks"), ray_remote_args)
        return self._with(Shuffle((self._plan,), numpy_seed(seed), num_blocks))  # type: ignore[arg-type]

    def randomize_block_order(self, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """The blocks in random order; rows of a block stay together."""
        return self._with(RandomizeBlocks((self._plan,), numpy_seed(seed)))  # type: ignore[arg-type]

    def sort(
        self,
        key: str | Sequence[str] | None,
        descending: bool | Sequence[bool] = False,
        boundaries: Sequence[Any] | None = None,
    ) -> Dataset:
        """Sorted by columns; equal rows keep their order, None comes last. `boundaries` of the
        first column say where blocks begin."""
        if key is None:
            raise ValueError("sort needs a column to sort by; got None")
        if not isinstance(key, (str, Sequence)):
            raise ValueError(f"sort takes a column or a list of columns; got {key!r}")
        names = [key] if isinstance(key, str) else list(key)
        down = [descending] * len(names) if isinstance(descending, bool) else list(descending)
        if not names or len(down) != len(names):
            raise ValueError(f"sort got the columns {names} and {len(down)} directions")
        keys = tuple(
            (name, "descending" if reverse else "ascending")
            for name, reverse in zip(names, down, strict=True)
        )
        limits = None if boundaries is None else tuple(boundaries)
        return self._with(Sort((self._plan,), keys, limits))

    def groupby(
        self, key: str | Sequence[str] | None, num_partitions: int | None = None
    ) -> GroupedData:
        """Groups of rows with equal keys; None is one group of all."""
        if callable(key):
            raise ValueError(f"groupby takes names of columns; got the function {key!r}")
        keys = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        self._check_known(keys)
        return GroupedData(self, keys, num_partitions)  # type: ignore[arg-type]
