"""Waiting for the jobs of stages, also where some hold what others wait for."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import skate
from skate.data._execution.jobs import RemoteJob, ThreadJob
from skate.data._execution.stages import Actors, Stage, TaskPool, ThreadPool

QUIET_SECONDS = 10.0  # after which it is worth a look at why nothing moves
_STALLED_SECONDS = 0.5  # after which jobs may wait for what others hold that wait for them


def cancel(stages: list[Stage]) -> None:
    """End the jobs that run, which wakes the thread that waits for them."""
    for stage in stages:
        for job in stage.running.copy():
            job.cancel()


def await_any(stages: list[Stage], full: list[Stage]) -> None:
    """Wait until some job at the head of its stage has something new.

    Those of the full stages are held back. Where they hold the resources that the others wait for,
    nothing would ever move: then they go on, beyond what is to wait in memory.
    """
    heads = [stage.running[0] for stage in stages if stage.running]
    if len(heads) == 1 and isinstance(heads[0], ThreadJob):
        heads[0].wait()
        return
    generators = [job.generator for job in heads if isinstance(job, RemoteJob)]
    if not generators or skate.wait(generators, timeout=_STALLED_SECONDS)[0]:
        return
    if _make_way(stages, full) or skate.wait(generators, timeout=QUIET_SECONDS)[0]:
        return
    _warn_if_starved([stage.workers for stage in stages])
    while not skate.wait(generators, timeout=QUIET_SECONDS)[0]:
        if _make_way(stages, full):
            return


def _make_way(stages: list[Stage], full: list[Stage]) -> bool:
    starved = bool(full) and any(stage.is_starved() for stage in stages if stage.running)
    return starved and any(stage.make_way() for stage in full)


def _warn_if_starved(workers: Sequence[TaskPool | Actors | ThreadPool]) -> None:
    """Say what is waited for when no resources are free for it."""
    for each in workers:
        if isinstance(each, Actors) and each.is_starved():
            warnings.warn(
                f"nothing has moved for {QUIET_SECONDS:.0f} s: a dataset is waiting for "
                f"{each.demand}, and {skate.available_resources()} is free. Other work or another "
                "dataset that is being iterated over, holds the rest",
                stacklevel=2,
            )
            return
