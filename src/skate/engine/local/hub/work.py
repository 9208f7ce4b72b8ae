"""What is to be done, as the hub keeps it: functions, plans made from options, tasks, runs."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.scheduler import Shape
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.local.messages import WorkSettings
    from skate.engine.local.objects import ObjectEntry

_TARGET_MICROS = 2_000  # of known short work that may wait inside a worker
_MOST_IN_FLIGHT = 64


class ExportedFunction:
    """An exported function or class, and what is known of its running time."""

    __slots__ = ("__weakref__", "average", "data", "key", "kind", "name", "uses", "window")

    def __init__(self, key: int, kind: int, data: object, name: str, uses: bytes = b"") -> None:
        self.key: int = key
        self.kind: int = kind
        self.data: Any = data
        self.name: str = name
        self.uses: bytes = uses  # where names of the modules that it uses occur
        self.average: float = -1.0  # µs; unknown
        self.window: int = 1

    def ran(self, micros: int) -> None:
        """Learn from a run: short functions are sent ahead in batches, long ones one by one."""
        if self.average < 0:
            self.average = float(micros)
        else:
            self.average += (micros - self.average) * 0.125
        self.window = max(1, min(_MOST_IN_FLIGHT, int(_TARGET_MICROS / (self.average + 1.0))))


# Units of resources, in which group (0: none), and whether the work is to be listed.
Asked: TypeAlias = tuple[Mapping[str, int], int, bool]


class WorkPlan:
    """Options of a task or actor call, worked out once and shared by all calls that have them."""

    __slots__ = (
        "asked", "max_calls", "num_returns", "retries", "settings", "shape", "simple",
        "streaming",
    )  # fmt: skip

    def __init__(
        self,
        shape: Shape | None,
        num_returns: int,
        retries: int,
        settings: WorkSettings | None = None,
        max_calls: int | None = None,
        streaming: bool = False,
        listed: bool = True,
    ) -> None:
        self.shape: Shape | None = shape
        self.num_returns: int = num_returns
        self.retries: int = retries
        # What the worker must know beyond the defaults.
        self.settings: WorkSettings | None = settings
        self.max_calls: int | None = max_calls
        self.streaming: bool = streaming
        # What is remembered of the shape, which itself goes with those who use it.
        self.asked: Asked | None = None if listed else ({}, 0, False)
        if shape is not None:
            group = shape.group.id if shape.group is not None else 0
            self.asked = (shape.demand, group, listed)
        self.simple: bool = num_returns == 1 and not streaming  # one value: the usual case


Dependency = tuple[int | str, "ObjectEntry"]  # argument position or keyword, and the object


class HubTask:
    """One run of a function, one actor construction, or one actor call."""

    __slots__ = (
        "actor", "args", "attempt", "cancelled", "dependencies", "function", "id", "made",
        "method", "missing", "nested", "owner", "parent", "plan", "sent", "solo", "worker",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        function: ExportedFunction | None,
        args: tuple[int, object],
        dependencies: Sequence[Dependency],
        nested: Sequence[int],
        plan: WorkPlan,
        owner: WorkerProcess | None,
        parent: int = 0,
    ) -> None:
        self.id: int = id
        self.function: ExportedFunction | None = function
        self.args: tuple[int, Any] = args  # kind and data, like an entry's
        self.dependencies: Sequence[Dependency] = dependencies
        self.nested: Sequence[int] = nested  # ids inside the arguments
        self.plan: WorkPlan = plan
        self.owner: WorkerProcess | None = owner  # None: the driver
        self.parent: int = parent  # the task that submitted it
        self.made: float = time.time()
        self.sent: float = 0.0  # to a worker, the last time
        self.missing: int = 0  # dependencies that are not there yet
        self.attempt: int = 0
        self.solo: bool = False  # was in flight with others when a worker died: goes alone now
        self.worker: WorkerProcess | None = None
        self.actor: HubActor | None = None  # that it constructs, or calls
        self.method: str = ""
        self.cancelled: bool = False

    @property
    def name(self) -> str:
        if self.plan.settings and self.plan.settings.get("name"):
            return str(self.plan.settings["name"])
        if self.method:
            return f"{self.actor.class_name if self.actor else 'actor'}.{self.method}"
        return self.function.name if self.function else "task"

    def uses_any(self, modules: Sequence[str]) -> bool:
        """Return whether its function mentions one of the modules (or may: a guess is enough)."""
        uses = self.function.uses if self.function is not None else b""
        return any(_is_in(uses, name.encode()) for name in modules)

    def may_retry(self) -> bool:
        return self.plan.retries < 0 or self.attempt < self.plan.retries

    @property
    def return_ids(self) -> Sequence[int]:
        """Return the ids of what it returns: consecutive, from its own; at least that one."""
        return range(self.id, self.id + max(1, self.plan.num_returns))


def _is_in(uses: bytes, name: bytes) -> bool:
    """Return whether a name is there by itself: `enable_pandas_block` does not mention pandas."""
    found = name in uses  # a pattern takes fifty times as long to find nothing
    return found and re.search(b"(?<!_)" + re.escape(name) + b"(?!_)", uses) is not None


TaskAttempt: TypeAlias = tuple[int, int]  # the task's id, how often it was tried before


class TaskRun(NamedTuple):
    """What is remembered of a task that has ended."""

    id: int
    name: str  # of the function or class
    method: str
    given_name: str  # by options(name=...)
    actor: int
    parent: int
    worker: int  # 0: it never ran
    pid: int
    attempt: int
    made: float
    end: float
    micros: int
    failed: bool
    asked: Asked | None  # None: nothing, and it is listed


def is_listed(asked: Asked | None) -> bool:
    """Return whether work that has asked for this is to be listed."""
    return asked is None or asked[2]


def run_of(
    task: HubTask, worker: WorkerProcess | None, micros: int, failed: bool
) -> tuple[object, ...]:
    """Return a `TaskRun`, as the plain tuple that takes a tenth of the time to make."""
    function, actor, settings = task.function, task.actor, task.plan.settings
    return (
        task.id,
        function.name if function is not None else actor.class_name if actor else "",
        task.method,
        settings.get("name") if settings else None,
        actor.id if actor is not None else 0,
        task.parent,
        worker.number if worker is not None else 0,
        worker.pid if worker is not None else 0,
        task.attempt,
        task.made,
        time.time(),
        micros,
        failed,
        task.plan.asked,
    )
