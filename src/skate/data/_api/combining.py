"""Dataset: order, blocks, and several datasets together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate._core.argument_checks import shown
from skate._core.plain_errors import methods_failing_plainly
from skate.data._api.base import Core, check_blocks, check_least, check_unused
from skate.data._execution.exchange import (
    RandomizeBlocks,
    Repartition,
    RowsPerBlock,
    Shuffle,
    Sort,
    Union,
    Zip,
)
from skate.data._execution.joins import JOINS, Join, check_same_keys
from skate.data._execution.mixing import Mix, MixStoppingCondition, check_weights
from skate.data._plan import nodes as plan
from skate.data._plan.seeds import RandomSeedConfig, numpy_seed
from skate.data._relational.sql import SELF, queried
from skate.data.grouped_data import GroupedData, GroupTogether

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


@methods_failing_plainly
class Combining(Core):
    """Operations that look at all rows."""

    def union(self, *other: Dataset) -> Dataset:
        """Return the rows of this dataset, then those of others.

        Args:
            *other: The other datasets.

        Example:
            >>> skate.data.range(2).union(skate.data.range(1)).take_all()
            [{'id': 0}, {'id': 1}, {'id': 0}]
        """
        return self._with(Union(self._plans_with(other, "union")))

    def zip(self, *other: Dataset) -> Dataset:
        """Put the rows of datasets side by side.

        Args:
            *other: The other datasets, each with as many rows. Columns of the same name get a
                number: `item`, `item_1`.

        Returns:
            A dataset, which is computed when it is used.

        Example:
            >>> skate.data.range(2).zip(skate.data.range(2)).take_all()
            [{'id': 0, 'id_1': 0}, {'id': 1, 'id_1': 1}]
        """
        return self._with(Zip(self._plans_with(other, "zip")))

    def _plans_with(self, others: tuple[object, ...], method: str) -> tuple[plan.Node, ...]:
        from skate.data.dataset import Dataset

        for other in others:
            if not isinstance(other, Dataset):
                raise TypeError(
                    f"{method} takes datasets, one after the other, as in a.{method}(b, c); got "
                    f"{shown(other)}; from_items(), from_pandas() and the like make one of values"
                )
        return self._plan, *(other._plan for other in others if isinstance(other, Dataset))

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
        """Combine the rows of two datasets that have equal keys.

        Args:
            ds: The other dataset, on the right.
            join_type: "inner", "left_outer", "right_outer", "full_outer", "left_semi",
                "right_semi", "left_anti" or "right_anti".
            num_partitions: Blocks of the result; there are more if the rows do not fit into
                memory.
            on: The key columns.
            right_on: Those of the other dataset, if they are called otherwise there.
            left_suffix: What is added to the names of columns of this dataset that both have.
            right_suffix: The same for the other dataset.
            partition_size_hint: Without effect: for the actors of Ray's shuffle, of which there
                are none.
            aggregator_ray_remote_args: Without effect, likewise.
            validate_schemas: Whether to look for the columns now, and not when the rows are
                computed.

        Returns:
            A dataset, which is computed when it is used.

        Raises:
            ValueError: If there is no such type, or the keys do not fit each other.

        Example:
            >>> people = skate.data.from_items([{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bo"}])
            >>> ages = skate.data.from_items([{"id": 2, "age": 30}])
            >>> people.join(ages, on="id").take_all()
            [{'id': 2, 'name': 'Bo', 'age': 30}]
        """
        join_type = getattr(join_type, "value", join_type)  # Ray has an enumeration of them
        if join_type not in JOINS:
            raise ValueError(
                f"Invalid join type: {join_type!r}; join_type takes {', '.join(map(repr, JOINS))}"
            )
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
        """Take the blocks of this dataset and of others in turn.

        Args:
            *other: The other datasets.
            weights: The shares of the rows, one for each dataset; None makes them equal.
            stopping_condition: Whether it ends with the first dataset that has no more rows, or
                with the last one, the default.

        Returns:
            A dataset, which is computed when it is used.

        Raises:
            ValueError: If there is not one positive weight for each dataset.

        Example:
            >>> skate.data.range(3).mix(skate.data.range(2)).count()
            5
        """
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
        keys: str | Sequence[str] | None = None,
        sort: bool = False,
    ) -> Dataset:
        """Put the rows into other blocks.

        Args:
            num_blocks: How many blocks.
            target_num_rows_per_block: How many rows in each; one of the two is given.
            strict: Whether blocks with fewer rows are forbidden; there is only the last such
                block.
            shuffle: Whether to mix the rows.
            keys: A column, or several: rows with equal values in them get into the same block,
                sorted by them. If the rows do not fit into memory there are more such blocks.
            sort: Whether blocks are sorted by `keys`, which they are in any case.

        Returns:
            A dataset, which is computed when it is used.

        Raises:
            ValueError: If both of the first two are given, or none.

        Example:
            >>> skate.data.range(10).repartition(5).materialize().num_blocks()
            5
        """
        if num_blocks is None and target_num_rows_per_block is None:
            raise ValueError("Either `num_blocks` or `target_num_rows_per_block` must be set")
        if num_blocks is not None and target_num_rows_per_block is not None:
            raise ValueError(
                "Only one of `num_blocks` or `target_num_rows_per_block` must be set, but not "
                f"both. Got {num_blocks} and {target_num_rows_per_block}"
            )
        if num_blocks is not None:
            check_blocks("num_blocks", num_blocks)
        if target_num_rows_per_block is not None:
            check_least("target_num_rows_per_block", target_num_rows_per_block, 1)
        if keys is not None:
            if num_blocks is None:
                raise ValueError("keys needs num_blocks")
            names = (keys,) if isinstance(keys, str) else tuple(keys)
            return self._with(GroupTogether((self._plan,), names, num_blocks))
        if sort:
            raise ValueError("sort=True needs keys to sort by")
        if shuffle and num_blocks is None:
            raise ValueError(
                "`shuffle` must be False when `target_num_rows_per_block` is set. With num_blocks "
                "it may be True"
            )
        if shuffle:
            return self.random_shuffle(num_blocks=num_blocks)
        if target_num_rows_per_block is not None:
            return self._with(RowsPerBlock((self._plan,), target_num_rows_per_block))
        assert num_blocks is not None
        return self._with(Repartition((self._plan,), num_blocks))

    def random_shuffle(
        self,
        *,
        seed: int | RandomSeedConfig | None = None,
        num_blocks: int | None = None,
        **ray_remote_args: object,
    ) -> Dataset:
        """Put all rows into random order.

        Args:
            seed: Makes the order the same every time, for other blocks of the same rows too, if
                they fit into memory; None makes it another one every time.
            num_blocks: How many blocks there are then; None keeps the number.
            **ray_remote_args: Without effect: Arrow shuffles in this process.

        Returns:
            A dataset, which is computed when it is used.

        Example:
            >>> sorted(row["id"] for row in skate.data.range(4).random_shuffle(seed=1).take_all())
            [0, 1, 2, 3]
        """
        check_unused("random_shuffle", ("seed", "num_blocks"), ray_remote_args)
        return self._with(Shuffle((self._plan,), numpy_seed(seed), num_blocks))

    def randomize_block_order(self, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """Put the blocks into random order; rows of a block stay together.

        Args:
            seed: Makes the order the same every time; None makes it another one every time.

        Returns:
            A dataset, which is computed when it is used.
        """
        return self._with(RandomizeBlocks((self._plan,), numpy_seed(seed)))

    def sort(
        self,
        key: str | Sequence[str] | None,
        descending: bool | Sequence[bool] = False,
        boundaries: Sequence[object] | None = None,
    ) -> Dataset:
        """Sort the rows by columns; equal rows keep their order, None comes last.

        Args:
            key: A column, or several.
            descending: Whether the greatest value comes first; one answer, or one for each column.
            boundaries: Values of the first column at which new blocks begin.

        Returns:
            A dataset, which is computed when it is used.

        Raises:
            ValueError: If there is no column to sort by, or one is named twice.

        Example:
            >>> skate.data.range(3).sort("id", descending=True).take_all()
            [{'id': 2}, {'id': 1}, {'id': 0}]
        """
        if key is None:
            raise ValueError("sort needs a column to sort by; got None")
        if not isinstance(key, (str, Sequence)):
            raise ValueError(f"sort takes a column or a list of columns; got {key!r}")
        names = [key] if isinstance(key, str) else list(key)
        _check_once("sort", names)
        down = [descending] * len(names) if isinstance(descending, bool) else list(descending)
        if not names or len(down) != len(names):
            raise ValueError(
                "Length of `descending` does not match the length of the key: sort got the "
                f"columns {names} and {len(down)} directions"
            )
        keys = tuple(
            (name, "descending" if reverse else "ascending")
            for name, reverse in zip(names, down, strict=True)
        )
        limits = None if boundaries is None else tuple(boundaries)
        return self._with(Sort((self._plan,), keys, limits))

    def groupby(
        self, key: str | Sequence[str] | None, num_partitions: int | None = None
    ) -> GroupedData:
        """Group the rows by columns.

        Args:
            key: A column, or several; None makes one group of all rows.
            num_partitions: Blocks of what is computed from the groups; None chooses.

        Returns:
            The groups, which have `sum`, `mean`, `aggregate`, `map_groups` and more.

        Raises:
            ValueError: If there is no such column, or one is named twice, or `num_partitions` is
                no positive number.

        Example:
            >>> ds = skate.data.from_items([{"k": "a", "x": 1}, {"k": "b", "x": 2}])
            >>> ds.groupby("k").sum("x").take_all()
            [{'k': 'a', 'sum(x)': 1}, {'k': 'b', 'sum(x)': 2}]
        """
        if callable(key):
            raise ValueError(
                f"groupby takes names of columns; got the function {key!r}: add what it returns "
                "as a column first, with map() or add_column()"
            )
        if not isinstance(key, (str, Sequence, type(None))):
            raise ValueError(f"groupby takes the name of a column, or a list of them; got {key!r}")
        if num_partitions is not None:
            check_least("num_partitions", num_partitions, 1)
        keys = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        _check_once("groupby", keys)
        self._check_known(keys)
        return GroupedData(self, keys, num_partitions)  # type: ignore[arg-type]


def _check_once(method: str, names: Sequence[str]) -> None:
    if twice := sorted({str(name) for name in names if names.count(name) > 1}):
        raise ValueError(f"{method} takes each column once; {twice} are named more often")
