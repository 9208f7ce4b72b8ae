"""From a message to a call: the function, its arguments, and what is known of it while it runs."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from skate._core import serialization
from skate._core.errors import unknown_concurrency_group
from skate.engine.local import messages as m
from skate.engine.local import surroundings
from skate.engine.local.arguments import unpack
from skate.engine.local.messages import Work, WorkSettings
from skate.engine.local.objects import INLINE, ObjectEntry
from skate.engine.local.store import parts_of
from skate.engine.local.titles import Title

if TYPE_CHECKING:
    from skate.engine.local.hosted_actor import HostedActor
    from skate.engine.local.reactor import Waiter
    from skate.engine.local.worker import WorkerEngine


class Running:
    """What is known of some work while it runs."""

    __slots__ = (
        "began", "function", "function_name", "id", "label", "leaving", "pending", "settings",
        "waiter",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        function_name: str,
        label: str,
        settings: WorkSettings | None,
        function: object = None,
    ) -> None:
        self.began: float  # by `time.perf_counter`; set where it begins, on the main thread
        self.id: int = id
        self.leaving: bool = False  # it has called exit_actor()
        # Its wait is to end, because it was cancelled; see `reactor.StopSignal`.
        self.pending: bool = False
        self.waiter: Waiter | None = None  # what it waits for, in an actor with several calls
        self.function: Any = function
        self.function_name: str = function_name
        self.label: str = label  # in front of what it prints
        self.settings: WorkSettings = settings or {}


running_now: contextvars.ContextVar[Running | None] = contextvars.ContextVar(
    "running_now", default=None
)


Prepared = tuple[Callable[..., Any], Any, Any, Running]  # function, args, kwargs


class Preparation:
    """Prepares the work of one worker process, and keeps what it was sent for that."""

    def __init__(self, engine: WorkerEngine, actor: HostedActor) -> None:
        self.borrowed: dict[
            int, list[ObjectEntry]
        ] = {}  # objects that came with a call, by its id
        self._engine = engine
        self._actor = actor
        self._packed: dict[int, tuple[int, Any]] = {}  # functions that no work has needed yet
        self._functions: dict[int, Callable[..., Any]] = {}
        self._names: dict[int, str] = {}  # of both
        self._refused: Exception | None = None
        self._title = Title(engine.settings["titles"])
        self._shown = ""  # the last name in the title: most calls are of the same function

    # -- functions -----------------------------------------------------------------------------

    def on_function(self, key: int, kind: int, data: Any, name: str) -> None:
        self._packed[key] = (kind, data)
        self._names[key] = name

    def on_forget(self, key: int) -> None:
        self._names.pop(key, None)
        self._packed.pop(key, None)
        self._functions.pop(key, None)

    def refuse_all(self, error: Exception) -> None:
        """Fail whatever is sent from now on, with this error."""
        self._refused = error
        self._functions.clear()

    def _function(self, key: int) -> Callable[..., Any]:
        known = self._functions.get(key)
        if known is None:
            if self._refused is not None:
                raise self._refused
            kind, data = self._packed[key]
            packed = data if kind == INLINE else parts_of(self._engine.store.open(data))
            known = self._functions[key] = serialization.loads(packed)
            del self._packed[key]
        return known

    @property
    def title(self) -> str:
        """What runs, as the title of the process says it."""
        return self._title.shown

    def show_idle(self) -> None:
        """Show, in the title of the process, that there is nothing to do."""
        self._shown = ""
        self._title.show_idle(self._actor.label)

    def name_of(self, work: Work) -> str:
        """Return what the work is called, in errors."""
        if work.operation == m.CREATION:
            return f"{self._names[work.target]}.__init__"
        given = work.settings.get("name") if work.settings else None
        if given:
            return given
        if work.operation == m.CALL:
            return f"{self._actor.label or 'actor'}.{work.target}"
        return self._names[work.target]

    # -- calls ---------------------------------------------------------------------------------

    def prepare(self, work: Work) -> Prepared:
        """Return what is to be called, with what, and its context."""
        if work.operation == m.TASK:
            return self._task(work)
        if work.operation == m.CALL:
            return self._call(work)
        return self._creation(work)

    def _task(self, work: Work) -> Prepared:
        _, id, key, kind, data, dependencies, _, settings = work
        function, name = self._function(key), self._names[key]
        args, kwargs = self._arguments(id, kind, data, dependencies)
        if settings and "accelerators" in settings:
            surroundings.show_accelerators(settings["accelerators"])
        title = name if not settings else settings.get("name") or name
        if title is not self._shown:
            self._shown = title
            self._title.show(_short(title))
        return function, args, kwargs, Running(id, name, _short(title), settings, function)

    def _call(self, work: Work) -> Prepared:
        _, id, method, kind, data, dependencies, _, settings = work
        actor = self._actor
        group = settings.get("concurrency_group") if settings else None
        if group and not actor.settings["concurrency_groups"]:
            raise unknown_concurrency_group(group, ())
        args, kwargs = self._arguments(id, kind, data, dependencies)
        function = actor.method(method)
        given = settings.get("name") if settings else None
        if (given or method) != self._shown:
            self._shown = given or method
            self._title.show(given or f"{actor.label}.{method}")
        return function, args, kwargs, Running(id, method, actor.print_label, settings)

    def _creation(self, work: Work) -> Prepared:
        _, id, key, kind, data, dependencies, _, _ = work
        settings = actor_settings_of(work)
        cls, name = self._function(key), self._names[key]
        self._actor.announce(id, name, settings)
        if "accelerators" in settings:
            surroundings.show_accelerators(settings["accelerators"])
        self._title.show(f"{_short(name)}.__init__")
        args, kwargs = self._arguments(id, kind, data, dependencies)

        def construct(*args: Any, **kwargs: Any) -> Any:
            begun = self._actor.construct(cls, args, kwargs)
            return later(begun) if inspect.isawaitable(begun) else constructed()

        async def later(begun: Awaitable[object]) -> str:
            await begun
            return constructed()

        def constructed() -> str:
            said = self._actor.constructed()
            # Calls on other threads do not change the name of this one, which is the process's.
            self._title.show(_short(name))
            return said

        return construct, args, kwargs, Running(id, f"{name}.__init__", name, settings)

    def _arguments(self, task_id: int, kind: int, data: Any, dependencies: Any) -> tuple[Any, Any]:
        if kind == INLINE and not dependencies:
            plain: tuple[Any, Any] = serialization.loads(data)
            return plain
        load = self._engine.load_argument
        borrowed = self.borrowed[task_id] = []
        if kind == INLINE:
            value: tuple[Any, Any] = serialization.loads(data)
        else:
            location, object_id = data
            value = load(kind, location, object_id, borrowed)
        if not dependencies:
            return value
        return unpack(value, [(slot, load(k, d, id, borrowed)) for slot, k, d, id in dependencies])


def actor_settings_of(creation: Work) -> WorkSettings:
    """Return the settings of an actor that is to be constructed."""
    assert creation.settings is not None
    return creation.settings


def _short(name: str) -> str:
    return name.rpartition(".")[2]
