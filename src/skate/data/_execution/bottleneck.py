"""What an execution spent its time on, and what would help: the first line of `stats()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.data._execution.stats import ExecutionStats, StageStats

_CONSUMER_SHARE = 0.5  # of the time, from which on it is not the dataset that takes it
_UNEVEN = 4.0  # times the mean that the longest block takes
_UNEVEN_SHARE = 0.3  # of the whole time, from which on that matters
_SHORT_SECONDS = 0.01  # of a block: passing it on costs as much
_MANY_BLOCKS = 200
_WORTH_SECONDS = 0.1  # what is over sooner needs no advice


def bottleneck(stats: ExecutionStats) -> str:
    """Return the operator that took longest and what to change; "" if all was over soon."""
    wall = stats.wall_seconds
    busiest = max(stats.stages, key=lambda stage: stage.busy_seconds, default=None)
    if wall is None or busiest is None or wall < _WORTH_SECONDS:
        return ""
    work = sum(stage.busy_seconds for stage in stats.stages)
    if stats.consumer_seconds > _CONSUMER_SHARE * wall:
        return (
            f"Bottleneck: what reads the dataset, which took {stats.consumer_seconds / wall:.0%} "
            "of the time. Do less between batches, or raise prefetch_batches to overlap it"
        )
    if not work:
        return ""
    share = f"{busiest.name}, {busiest.busy_seconds / work:.0%} of the work"
    return f"Bottleneck: {share}. {_advice(busiest, wall)}"


def _advice(stage: StageStats, wall: float) -> str:
    mean = stage.busy_seconds / max(1, stage.blocks)
    remote = stage.where.startswith(("tasks", "actors"))
    if remote and stage.blocks == 1:
        return (
            "It is one block, which one process works on: repartition(n) before it, or "
            "override_num_blocks=n where it is read, lets several do"
        )
    if remote and stage.longest > _UNEVEN * mean and stage.longest > _UNEVEN_SHARE * wall:
        return (
            "One of its blocks takes much longer than the others: repartition(n) before it makes "
            "them alike"
        )
    if remote and stage.blocks > _MANY_BLOCKS and mean < _SHORT_SECONDS:
        return (
            f"Its {stage.blocks} blocks are too small to be worth a task each: fewer and larger "
            "ones, by repartition(n) or override_num_blocks=n"
        )
    if stage.where.startswith("actors"):
        busy = stage.busy_seconds / wall
        return (
            f"About {busy:.1f} of its actors ({stage.where}) were busy at a time: raise "
            "concurrency if there are CPUs left, or batch_size, or make the function faster"
        )
    if stage.name.startswith("Read") and "->" not in stage.name:
        return "Read less: columns=[...] and filter(expr=...) where it is read, or larger files"
    if stage.where == "tasks":
        return (
            f"About {stage.busy_seconds / wall:.1f} processes worked on it at a time: make the "
            "function faster, as map_batches on whole arrays is, or give it more CPUs"
        )
    return (
        "It sees all rows, in this process: filter and select columns before it, so that it sees "
        "fewer"
    )
