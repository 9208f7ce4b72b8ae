"""One task or actor call, from its arguments to its results."""

from __future__ import annotations

import contextvars
import dataclasses
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from skate._core.errors import argument_error, task_error
from skate._core.refs import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
from skate._core.serialization import dumps, loads
from skate.engine.inline.resources import Holding
from skate.engine.inline.streams import InlineStream
from skate.engine.inline.surroundings import applied
from skate.engine.specs import Context
from skate.exceptions import SkateError, TaskCancelledError, WorkerCrashedError

if TYPE_CHECKING:
    from skate.engine.inline.lanes import Lane
    from skate.engine.inline.objects import Objects
    from skate.engine.inline.resources import InlineResources

current: contextvars.ContextVar[Context | None] = contextvars.ContextVar("skate", default=None)


class KnownError(BaseException):
    """The call fails with this error as it is, such as the death of its actor."""

    def __init__(self, error: SkateError) -> None:
        self.error = error


class ArgumentError(KnownError):
    """An argument of the call is this error."""


class Arguments:
    """Arguments as they were at submission, whatever the caller does to them afterwards."""

    def __init__(
        self, objects: Objects, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        serialized = dumps((args, kwargs), "arguments")
        self._objects = objects
        self._packed = serialized.packed()
        self._refs = serialized.refs  # keeps alive what the pickle mentions
        top_level = (*args, *kwargs.values())
        self.awaited: list[ObjectRef[Any]] = [
            value for value in top_level if type(value) is ObjectRef
        ]

    def load(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a fresh copy, with top-level references as values; raise their errors."""
        args, kwargs = loads(self._packed)
        return (
            tuple(self._resolved(value) for value in args),
            {name: self._resolved(value) for name, value in kwargs.items()},
        )

    def _resolved(self, value: object) -> object:
        if type(value) is not ObjectRef:
            return value
        entry = self._objects.entry(value)
        if entry.error is not None:
            entry.told()
            raise ArgumentError(entry.error)
        return self._objects.value(value)


class Results:
    """The references that a call returns at once, and how they get their values."""

    def __init__(self, objects: Objects, num_returns: int | str, by_actor: bool = False) -> None:
        self._objects = objects
        self.num_returns = num_returns
        self.stream: InlineStream | None = None
        self.refs: list[ObjectRef[Any]] = [objects.new() for _ in range(_count(num_returns))]
        for ref in self.refs:
            ref._entry.by_actor = by_actor
        if num_returns == "streaming":
            self.stream = self.refs[0]._entry.stream = InlineStream(objects, self.refs[0])

    def returned(self) -> object:
        """Return what the caller of `.remote()` gets."""
        if self.stream is not None:
            return ObjectRefGenerator(self.refs[0])
        if self.num_returns in (1, "dynamic"):
            return self.refs[0]
        return self.refs or None

    def done(self) -> bool:
        return any(ref._entry.done for ref in self.refs)

    def succeed(self, value: object) -> None:
        """Store the value. Raises for one that does not fit or cannot be serialised."""
        self.give(self._split(value))

    def give(self, values: list[object], error: SkateError | None = None) -> None:
        """Store values; what comes after them is the error."""
        packed = [dumps(item, "result") for item in values]
        for ref, serialized in zip(self.refs, packed, strict=error is None):
            if not ref._entry.done:
                self._objects.store(ref, serialized)
        if error is not None:
            for ref in self.refs[len(values) :]:
                self._objects.fail(ref, error)

    def _split(self, value: object) -> list[object]:
        if not isinstance(self.num_returns, int) or self.num_returns == 1:
            return [value]
        if self.num_returns == 0:
            return []
        if not hasattr(value, "__iter__"):
            kind = type(value).__name__
            raise TypeError(f"num_returns={self.num_returns}, but the task returned one {kind}")
        values = list(value)
        if len(values) != self.num_returns:
            raise _wrong_count(self.num_returns, len(values))
        return values

    def fail(self, error: SkateError) -> None:
        if self.stream is not None:
            self.stream.end(error)
            return
        for ref in self.refs:
            self._objects.fail(ref, error)


def _wrong_count(wanted: int, given: int) -> ValueError:
    return ValueError(f"Task returned {given} objects, but num_returns={wanted}")


def _count(num_returns: int | str) -> int:
    return num_returns if isinstance(num_returns, int) else 1


@dataclasses.dataclass
class Call:
    """What is needed to run user code once or, with retries, several times."""

    name: str
    arguments: Arguments
    results: Results
    context: Context
    variables: dict[str, str]
    objects: Objects
    resources: InlineResources
    events: deque[dict[str, Any]]
    function: Any = None
    holding: Holding | None = None
    retries: int = 0
    retry_exceptions: bool | tuple[type[BaseException], ...] = False
    actor_repr: str = ""

    def run(self) -> None:
        """Run to the end; errors become results. Raises KeyboardInterrupt only."""
        while not (self.results.done() or self._attempt()):
            pass

    def start(self, lane: Lane) -> None:
        """Run now, or when the arguments are there."""
        if not all(self.objects.ready(ref) for ref in self.arguments.awaited):
            for ref in self.results.refs:
                ref._entry.cancel = self.cancel
        lane.run(self.arguments.awaited, self.run)

    def cancel(self) -> None:
        """Fail a call that has not started, and never will."""
        self.results.fail(TaskCancelledError(self.context.task_id))

    def _attempt(self) -> bool:
        """Return whether it is over."""
        try:
            self.finish(self.step(self.invoke))
        except BaseException as error:
            if self._is_retried(error):
                return False
            self.results.fail(self.failed(error))
            if isinstance(error, KeyboardInterrupt):
                raise
        return True

    def invoke(self) -> object:
        args, kwargs = self.arguments.load()
        return self.function(*args, **kwargs)

    def finish(self, value: Any) -> None:
        wanted = self.results.num_returns
        if wanted == "dynamic":
            value = DynamicObjectRefGenerator(self._collect(value))
        if isinstance(value, GeneratorType) and isinstance(wanted, int) and wanted:
            self._take(value, wanted)
        elif self.results.stream is None:
            self.step(lambda: self.results.succeed(value))
        elif not hasattr(value, "__next__"):
            raise TypeError(
                f'num_returns="streaming" needs a generator; {self.name} returned '
                f"{type(value).__name__}"
            )
        else:
            self.results.stream.pull_from(value, self.step, self.failed)

    def _take(self, items: Iterator[object], count: int) -> None:
        """Take the first items of a generator as the values; after an error, that is."""
        values: list[Any] = []

        def take() -> None:
            for item in islice(items, count):
                values.append(item)
            if len(values) < count:
                raise _wrong_count(count, len(values))

        try:
            self.step(take)
        except Exception as error:
            if self._would_be_retried(error):
                raise
            self.results.give(values, self.failed(error))
        else:
            self.results.give(values)

    def _collect(self, generator: Any) -> list[ObjectRef[object]]:
        """Return a reference for each item; an error is the last of them."""
        stream = InlineStream(self.objects, self.objects.new())
        failure: list[BaseException] = []

        def failed(error: BaseException) -> SkateError:
            failure.append(error)
            return self.failed(error)

        stream.pull_from(iter(generator), self.step, failed)
        refs = stream.drained()
        if failure and self._would_be_retried(failure[0]):
            raise failure[0]
        return refs

    def _would_be_retried(self, error: BaseException) -> bool:
        wanted = self.retry_exceptions
        retried = isinstance(error, wanted) if isinstance(wanted, tuple) else wanted
        return bool(retried) and isinstance(error, Exception) and self.retries != 0

    def _is_retried(self, error: BaseException) -> bool:
        if not self._would_be_retried(error):
            return False
        self.retries -= 1
        return True

    def failed(self, error: BaseException) -> SkateError:
        """Return the value of the call's references after `error`."""
        if isinstance(error, KeyboardInterrupt):
            return TaskCancelledError(self.context.task_id, "It was interrupted.")
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            text = f"{self.name} called sys.exit({error.code!r})."
            return WorkerCrashedError(text, exitcode=code)
        if isinstance(error, ArgumentError):
            return argument_error(error.error, self.name)
        if isinstance(error, KnownError):
            return error.error
        return task_error(
            error, self.name, actor_repr=self.actor_repr, actor_id=self.context.actor_id
        )

    def step(self, function: Callable[[], object]) -> Any:
        """Run a part of the call as its worker process would: context, environment, resources."""
        with self.surroundings(), applied(self.context.runtime_env, self.variables):
            return function()

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        token = current.set(self.context)
        began = time.time()
        if self.holding is not None:
            self.resources.hold(self.holding)
        try:
            yield
        finally:
            if self.holding is not None:
                self.resources.free(self.holding)
            current.reset(token)
            self.events.append(_event(self.name, began))


class ActorExit(SystemExit):
    """Raised by exit_actor(); a SystemExit so that `except Exception` lets it through."""


def span_event(
    name: str, start: float, micros: int, extra: Mapping[str, object]
) -> dict[str, object]:
    """Return a row of the timeline for a span that the program has named."""
    event = {"cat": "span", "name": name, "ph": "X", "ts": start * 1e6, "dur": micros}
    return {**event, "pid": os.getpid(), "tid": threading.get_ident(), "args": dict(extra)}


def _event(name: str, began: float) -> dict[str, object]:
    return {
        "cat": "task",
        "name": name,
        "ph": "X",
        "ts": began * 1e6,
        "dur": (time.time() - began) * 1e6,
        "pid": "127.0.0.1",
        "tid": f"worker:{os.getpid()}",
        "args": {},
    }
