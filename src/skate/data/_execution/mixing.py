"""`Dataset.mix`: the blocks of several datasets in turn, by weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from skate._core.enumerations import looked_up_by_value
from skate.data._execution.bundles import Bundle
from skate.data._execution.partitions import Streams
from skate.data._plan import nodes as plan
from skate.data._settings.context import DataContext


@looked_up_by_value
class MixStoppingCondition(Enum):
    """Say when a mix ends: with the first dataset that has no more rows, or with the last.

    Args:
        value: "stop_on_shortest" or "stop_on_longest_drop".
    """

    STOP_ON_SHORTEST = "stop_on_shortest"
    STOP_ON_LONGEST_DROP = "stop_on_longest_drop"


def check_weights(weights: Sequence[float] | None, datasets: int) -> tuple[float, ...]:
    """Check the weights of a mix, and return them as shares that add up to 1."""
    given = [1.0] * datasets if weights is None else list(weights)
    if len(given) != datasets:
        raise ValueError(f"mix takes one weight per dataset, {datasets}; got {given}")
    if any(weight <= 0 for weight in given):
        raise ValueError(f"weights of a mix must be positive; got {given}")
    return tuple(weight / sum(given) for weight in given)


@dataclass(frozen=True, eq=False)
class Mix(plan.Exchange):
    """Each block comes from the dataset that is furthest behind its share of the rows; of several
    from the one with the largest share."""

    weights: tuple[float, ...] = ()
    until: MixStoppingCondition = MixStoppingCondition.STOP_ON_LONGEST_DROP

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return self._mixed(streams)

    def _mixed(self, streams: Streams) -> Iterator[Bundle]:
        rows = [0] * len(streams)
        # One block ahead, to know that there is none without giving one.
        heads = [next(stream, None) for stream in streams]
        shortest = self.until is MixStoppingCondition.STOP_ON_SHORTEST
        while any(head is not None for head in heads):
            if shortest and None in heads:
                return
            left = [number for number, head in enumerate(heads) if head is not None]
            number = max(left, key=lambda n: (self._behind(n, rows), self.weights[n], -n))
            bundle = heads[number]
            assert bundle is not None
            rows[number] += bundle.rows
            yield bundle
            heads[number] = next(streams[number], None)

    def _behind(self, number: int, rows: Sequence[int]) -> float:
        return self.weights[number] * sum(rows) - rows[number]
