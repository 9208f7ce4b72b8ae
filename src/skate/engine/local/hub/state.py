"""The tables of a session: plain data, for the components of the hub to work on.

All of it is read and changed with the engine's lock held.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from skate._core.accelerators import NUMBERED, visible_ids

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.groups import HubGroup
    from skate.engine.local.hub.inventory import Row
    from skate.engine.local.hub.scheduler import Shape
    from skate.engine.local.hub.work import ExportedFunction, HubTask, TaskAttempt
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.local.objects import ObjectEntry

_MOST_RUNS = 10_000  # remembered
_MOST_ENDED_ACTORS = 1_000
_MOST_ENDED_WORKERS = 1_000
_MOST_REMOVED_GROUPS = 1_000
_MOST_FAILURES = 1_000
_LARGEST_FAILURE_BYTES = 1 << 16  # remembered: an error may hold any value


class SessionFacts(NamedTuple):
    """What was said of a session when it began."""

    namespace: str
    job_id: str
    node_id: str
    labels: Mapping[str, str]
    runtime_env: Mapping[str, Any]
    visible_accelerators: Mapping[str, Sequence[int | str] | None]  # by resource; None: all
    began: float = 0.0  # seconds since the epoch

    @property
    def driver_id(self) -> str:
        """The id of the driver as a process: as long as those of workers, and none of them."""
        return self.job_id.ljust(56, "f")


def facts_of_session(
    namespace: str | None,
    labels: Mapping[str, str] | None,
    runtime_env: Mapping[str, object] | None,
    resources: Mapping[str, int],
) -> SessionFacts:
    """Return the facts of a session that begins now."""
    node_id = os.urandom(28).hex()
    return SessionFacts(
        namespace=namespace or os.urandom(8).hex(),
        job_id="01000000",
        node_id=node_id,
        labels={"ray.io/node-id": node_id, **(labels or {})},
        runtime_env=dict(runtime_env or {}),
        visible_accelerators={name: visible_ids(name) for name in NUMBERED if name in resources},
        began=time.time(),
    )


class State:
    """Objects, workers, functions, actors and groups, and what is remembered of those gone."""

    def __init__(self, entries: dict[int, ObjectEntry]) -> None:
        self.entries = entries  # all objects
        self.workers: dict[int, WorkerProcess] = {}  # that are or will be, by process number
        self.ended_workers: deque[Row] = deque(maxlen=_MOST_ENDED_WORKERS)
        self.functions: dict[int, ExportedFunction] = {}  # that workers may submit tasks of
        self.queues: dict[Shape, None] = {}  # with tasks that wait for a worker
        self.without_arguments: set[HubTask] = set()  # tasks that wait for values of others
        self.children: dict[int, set[int]] = {}  # tasks by the task that submitted them
        self.actors: dict[int, HubActor] = {}  # that are not dead
        self.names: dict[tuple[str, str], HubActor] = {}  # by namespace and name
        self.deaths: dict[int, Packed] = {}  # why actors are dead, for as long as handles ask
        self.ended_actors: deque[tuple[Row, Packed]] = deque(maxlen=_MOST_ENDED_ACTORS)
        self.gone_actors = 0  # so far
        self.groups: dict[int, HubGroup] = {}
        self.removed_groups: deque[HubGroup] = deque(maxlen=_MOST_REMOVED_GROUPS)
        self.runs: deque[tuple[Any, ...]] = deque(maxlen=_MOST_RUNS)  # as of `run_of`
        self.ended_tasks = 0  # how many there were of the former
        self.failures: deque[tuple[TaskAttempt, Packed]] = deque(maxlen=_MOST_FAILURES)
        self.remembered_failures: int = 0  # so far
        # Named by the program: name, beginning, microseconds, further values, process.
        self.spans: deque[tuple[str, float, int, dict[str, Any], int]] = deque(maxlen=_MOST_RUNS)
        self.answered: list[WorkerProcess] = []  # who may have room for more work

    def unfinished(self) -> list[HubTask]:
        """Return the tasks that have not ended, also those that nobody refers to any more."""
        found = [entry.task for entry in [*self.entries.values()] if entry.kind is None]
        waiting = [task for shape in [*self.queues] for task in shape.queue]
        waiting += [*self.without_arguments]
        for actor in [*self.actors.values()]:
            waiting += actor.unsent()
        found += [task for task in waiting if not task.cancelled]
        for worker in [*self.workers.values()]:
            found += worker.in_flight.values()
        return [task for task in dict.fromkeys(found) if task is not None]

    def remember_failure(self, task: HubTask, error: Packed) -> None:
        """Keep the error of an attempt for those who list tasks, if it is small and plain."""
        if isinstance(error, bytes) and len(error) <= _LARGEST_FAILURE_BYTES:
            self.failures.append(((task.id, task.attempt), error))
            self.remembered_failures += 1
