"""Room for the workers of a group."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping, Sequence

import skate
from skate._run.scaling_config import ScalingConfig
from skate.exceptions import TaskUnschedulableError
from skate.train._workers.labels import check_labels
from skate.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

GROWING = "skate-train-growing-"  # begins the names of reservations for further workers
GROW_SECONDS = 2.0  # in which room that seems to be there must have been reserved
LOOK_SECONDS = 0.05  # between looks at a reservation whose node is lost
LOOSE = ("PACK", "SPREAD")  # strategies that hold for workers that come later, as far as can be


class Reservations:
    """Reserves resources for workers, by rank.

    Those of the least number of workers are reserved together, all or none. If there may be more,
    each further one has a reservation of its own, which can be given back alone; where all must
    be placed together, by a strict strategy, they are all reserved together.

    Args:
        scaling: How many workers there may be.
        each: What each of them gets.
        size: How many to begin with; further ones than the least number are left out if there is
            no room for them after all.
    """

    def __init__(self, scaling: ScalingConfig, each: Mapping[str, float], size: int) -> None:
        self._each = dict(each)
        self.can_change = scaling.elasticity_enabled and scaling.placement_strategy in LOOSE
        self._together = scaling.min_workers if self.can_change else size
        head = scaling._trainer_resources_not_none
        bundles = [dict(each) for _ in range(self._together)]
        self._first = _reserve([*bundles, *([head] if head else [])], scaling)
        self._further: list[PlacementGroup] = []
        try:
            self.grow(size)
        except BaseException:
            self.release()
            raise

    def __len__(self) -> int:
        return self._together + len(self._further)

    def place(self, rank: int) -> PlacementGroupSchedulingStrategy:
        """Return where the worker of a rank is to run."""
        if rank < self._together:
            return PlacementGroupSchedulingStrategy(self._first, rank)
        return PlacementGroupSchedulingStrategy(self._further[rank - self._together], 0)

    def grow(self, size: int) -> None:
        """Reserve for so many workers in all, or for as many as there is room for."""
        while len(self) < size:
            further = self._further_one()
            if not _is_there(further):
                remove_placement_group(further)
                return
            self._further.append(further)

    def shrink(self, size: int) -> None:
        """Give back what was reserved for others than the first workers."""
        while len(self) > max(size, self._together):
            remove_placement_group(self._further.pop())

    def renew(self, rank: int) -> bool:
        """Have room for another worker in the place of one that has died, perhaps with its node;
        False if there is none. Those whose number cannot change wait for a node."""
        if not self.can_change:
            return True
        if rank < self._together:
            return _is_whole(self._first)
        place = rank - self._together
        remove_placement_group(self._further[place])
        self._further[place] = self._further_one()
        return _is_there(self._further[place])

    def _further_one(self) -> PlacementGroup:
        return placement_group([self._each], name=GROWING + secrets.token_hex(8))

    def can_spare(self, ranks: Collection[int]) -> bool:
        """Return whether the others can go on without these: not without one of the least number,
        which are reserved together."""
        return all(rank >= self._together for rank in ranks)

    def leave_out(self, ranks: Collection[int]) -> None:
        """Give back what was reserved for these ranks, all of which can be spared."""
        for rank in sorted(ranks, reverse=True):
            remove_placement_group(self._further.pop(rank - self._together))

    def release(self) -> None:
        """Give back everything."""
        self.shrink(0)
        remove_placement_group(self._first)


def _is_there(group: PlacementGroup) -> bool:
    ready, _ = skate.wait([group._ref], timeout=GROW_SECONDS)
    try:
        skate.get(ready)
    except TaskUnschedulableError:  # there is less than there was
        return False
    return bool(ready)


def _is_whole(group: PlacementGroup) -> bool:
    """Return whether all of a reservation is there, or is again soon, elsewhere than on a lost
    node."""
    deadline = time.monotonic() + GROW_SECONDS
    while placement_group_table(group).get("state") != "CREATED":
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def resources_per_worker(scaling: ScalingConfig) -> dict[str, float]:
    """Return what each worker reserves. By default a CPU each; on a machine with fewer CPUs than
    workers they share what there is."""
    wanted = scaling._resources_per_worker_not_none
    if not wanted:
        raise ValueError(
            "resources_per_worker says what each worker reserves, some of it above 0, as "
            f'{{"CPU": 0.01}}; got {scaling.resources_per_worker}'
        )
    if scaling.resources_per_worker is not None or "CPU" not in wanted:
        return wanted
    cpus = skate.cluster_resources().get("CPU", 0.0)
    if cpus and scaling.min_workers > cpus:
        return {**wanted, "CPU": int(100 * cpus / scaling.min_workers) / 100}
    return wanted


def _reserve(bundles: Sequence[dict[str, float]], scaling: ScalingConfig) -> PlacementGroup:
    check_labels(scaling.label_selector)
    group = placement_group(list(bundles), strategy=scaling.placement_strategy)
    try:
        skate.get(group._ref)
    except TaskUnschedulableError as error:
        remove_placement_group(group)
        raise TaskUnschedulableError(f"{error}. {_way_out(scaling)}") from None
    except BaseException:
        remove_placement_group(group)
        raise
    return group


def _way_out(scaling: ScalingConfig) -> str:
    if scaling.num_gpus_per_worker > skate.cluster_resources().get("GPU", 0.0):
        return "No GPU was found for use_gpu=True: set use_gpu=False to train on the CPU"
    return "Use fewer workers, or ask for less in ScalingConfig(resources_per_worker={…})"
