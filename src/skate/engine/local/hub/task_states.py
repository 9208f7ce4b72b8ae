"""How far tasks are that have not ended, in the words of Ray's state API."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.hub.workers import WorkerProcess

RUNNING = "RUNNING"


class TaskStates:
    """Says how far tasks are, for one answer about many of them.

    Of those that a worker has, the first ones run: which these are is found out once for each
    worker, and not for each of its tasks.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[int, int], set[int]] = {}  # by the worker, and how many run

    def of(self, task: HubTask) -> str:
        """Return how far a task is that has not ended."""
        if task.missing:
            return "PENDING_ARGS_AVAIL"
        if task.worker is None:
            return "PENDING_NODE_ASSIGNMENT"
        if not task.worker.pid:  # it is being forked
            return "SUBMITTED_TO_WORKER"
        at_once = task.actor.at_once if task.actor is not None and task.method else 1
        if len(task.worker.in_flight) <= at_once or task.id in self._running(task.worker, at_once):
            return RUNNING
        several = at_once > 1  # then Ray has another word for those that wait
        return "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY" if several else "SUBMITTED_TO_WORKER"

    def _running(self, worker: WorkerProcess, at_once: int) -> set[int]:
        key = worker.number, at_once
        if key not in self._first:
            self._first[key] = set(islice(worker.in_flight, at_once))
        return self._first[key]


def has_begun(task: HubTask) -> bool:
    """Return whether a task is with a worker, or was once."""
    return task.attempt > 0 or not TaskStates().of(task).startswith("PENDING")
