"""What a preprocessor of one's own wants to know of a dataset: noted in `_fit`, then computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


def _unchanged(value: object) -> Any:
    return value


class Aggregation(NamedTuple):
    """An aggregation over one column, and what becomes of its result."""

    stat_fn: Any
    column: str
    post_process_fn: Callable[[Any], Any]
    as_arrow: bool


class CallableStat(NamedTuple):
    """A function that computes a statistic of several columns by itself."""

    stat_fn: Callable[..., Any]
    columns: Sequence[str]
    stat_key_fn: Callable[[str], str]
    post_key_fn: Callable[[str], str]
    post_process_fn: Callable[[Any], Any]


class StatComputationPlan:
    """The statistics that `_fit` asks for: `self.stat_computation_plan.add_aggregator(...)`.

    `fit` computes them, all aggregations in one pass, and puts them into `self.stats_`.
    """

    def __init__(self) -> None:
        self._aggregations: list[Aggregation] = []
        self._callables: list[CallableStat] = []

    def reset(self) -> None:
        """Forget what was asked for."""
        self.__init__()  # type: ignore[misc]

    def add_aggregator(
        self,
        *,
        aggregator_fn: Callable[[str], object],
        post_process_fn: Callable[[Any], Any] = _unchanged,
        columns: Sequence[str],
        batch_format: object = None,
    ) -> None:
        """Ask for an aggregation of each column.

        Args:
            aggregator_fn: Makes the aggregation for the name of a column, as `Mean` does. The
                aggregation's name is the key in `stats_`.
            post_process_fn: What its result is put through.
            columns: The names of the columns.
            batch_format: "arrow" hands `post_process_fn` an Arrow scalar, otherwise it gets a
                Python value.
        """
        as_arrow = getattr(batch_format, "value", batch_format) in ("arrow", "pyarrow")
        self._aggregations += [
            Aggregation(aggregator_fn(column), column, post_process_fn, as_arrow)
            for column in columns
        ]

    def add_callable_stat(
        self,
        *,
        stat_fn: Callable[..., object],
        stat_key_fn: Callable[[str], str],
        post_key_fn: Callable[[str], str] | None = None,
        post_process_fn: Callable[[Any], Any] = _unchanged,
        columns: Sequence[str],
    ) -> None:
        """Ask for statistics that a function computes by itself.

        Args:
            stat_fn: Is given `stat_key_fn`, and returns a dictionary with that key per column.
            stat_key_fn: The key of a column in that dictionary.
            post_key_fn: The key of a column in `stats_`; `stat_key_fn` by default.
            post_process_fn: What each result is put through.
            columns: The names of the columns.
        """
        self._callables.append(
            CallableStat(
                stat_fn, columns, stat_key_fn, post_key_fn or stat_key_fn, post_process_fn
            )
        )

    def compute(self, dataset: Dataset) -> dict[str, Any]:
        """Compute what was asked for, for `dataset`; returns it by key."""
        stats: dict[str, Any] = {}
        if self._aggregations:
            found: Any = dataset.aggregate(*(wanted.stat_fn for wanted in self._aggregations))
            for wanted in self._aggregations:
                key = wanted.stat_fn.name
                value = pa.scalar(found[key]) if wanted.as_arrow else found[key]
                stats[key] = wanted.post_process_fn(value)
        for own in self._callables:
            result = own.stat_fn(own.stat_key_fn)
            for column in own.columns:
                value = result[own.stat_key_fn(column)]
                stats[own.post_key_fn(column)] = own.post_process_fn(value)
        return stats

    def has_custom_stat_fn(self) -> bool:
        """Return whether a function computes some of the statistics by itself."""
        return bool(self._callables)

    def __bool__(self) -> bool:
        return bool(self._aggregations or self._callables)

    def __iter__(self) -> Iterator[Aggregation]:
        return iter(self._aggregations)
