"""How many workers there should be: `ScalingConfig(num_workers=(least, most))`.

A training takes what nobody else wants: it grows when resources are free, and shrinks when some
were taken away, or when a placement group waits that would fit if it had fewer workers. Tasks and
actors are not waited for: those that prepare its own rows would have it shrink all the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import skate
from skate._run.scaling_config import ScalingConfig
from skate.train._workers.reservations import GROWING
from skate.util.placement_group import placement_group_table

FAILED_SECONDS = 10.0  # after which to try to grow again, if new workers have failed

Amounts = Mapping[str, float]


class SizeChanged(Exception):  # noqa: N818 - not an error that anybody else sees
    """The group should have another number of workers."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Elasticity:
    """Looks at what there is from time to time.

    Args:
        scaling: How many workers there may be, and how often to look.
        each: What each of them gets.
    """

    def __init__(self, scaling: ScalingConfig, each: Amounts) -> None:
        self._scaling = scaling
        self._each = each
        self._next = time.monotonic() + scaling.elastic_resize_monitor_interval_s

    def start_size(self) -> int:
        """Return how many workers to begin with: all that were asked for; of a range, as many as
        there is room for now."""
        if not self._scaling.elasticity_enabled:
            return self._scaling.max_workers
        free = dict(skate.available_resources())
        for name, amount in self._scaling._trainer_resources_not_none.items():
            free[name] = free.get(name, 0.0) - amount
        return self._fitting(0, free, [])

    def changed(self, size: int) -> int | None:
        """Return how many there should be instead of so many; None if that is right, or if it is
        too early to look again."""
        now = time.monotonic()
        if not self._scaling.elasticity_enabled or now < self._next:
            return None
        self._next = now + self._scaling.elastic_resize_monitor_interval_s
        wanted = self._fitting(size, skate.available_resources(), _waiting_groups())
        return None if wanted == size else wanted

    def postpone(self) -> None:
        """Wait before growing again, because new workers have failed."""
        self._next = time.monotonic() + FAILED_SECONDS

    def _fitting(self, size: int, free: Amounts, waiting: Sequence[Amounts]) -> int:
        least, most = self._scaling.min_workers, self._scaling.max_workers
        return fitting_size(size, (least, most), self._each, free, waiting)


def fitting_size(
    size: int,
    limits: tuple[int, int],
    each: Amounts,
    free: Amounts,
    waiting: Sequence[Amounts],
) -> int:
    """Compute how many workers there should be.

    Args:
        size: How many there are.
        limits: The least number and the largest.
        each: What each of them has.
        free: What nobody has; less than nothing where something was taken away.
        waiting: What others wait for, each all of it at once.
    """
    least, most = limits
    room = [math.floor(free.get(name, 0.0) / n + 1e-6) for name, n in each.items() if n]
    more = min(room, default=most)
    if more >= 0 and waiting:
        more = -min(filter(None, (_to_leave(w, each, free, size - least) for w in waiting)),
                    default=0)  # fmt: skip
    return max(least, min(most, size + more))


def _to_leave(wanted: Amounts, each: Amounts, free: Amounts, most: int) -> int:
    """Count the workers that would have to go for others to get what they wait for; 0 if it fits,
    or not even without all of these."""
    lacking = {name: amount - free.get(name, 0.0) for name, amount in wanted.items()}
    lacking = {name: amount for name, amount in lacking.items() if amount > 1e-6}
    if any(not each.get(name) for name in lacking):
        return 0
    needed = max((math.ceil(n / each[name] - 1e-6) for name, n in lacking.items()), default=0)
    return needed if needed <= most else 0


def _waiting_groups() -> Sequence[Amounts]:
    """List what placement groups wait for, other than those of trainings that would like to
    grow."""
    found = []
    for row in placement_group_table().values():
        if row["state"] == "PENDING" and not row["name"].startswith(GROWING):
            total: dict[str, float] = {}
            for bundle in row["bundles"].values():
                for name, amount in bundle.items():
                    total[name] = total.get(name, 0.0) + amount
            found.append(total)
    return found
