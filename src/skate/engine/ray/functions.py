"""Remote functions: what Ray runs in its workers for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

import ray

from skate._core.refs import DynamicObjectRefGenerator
from skate._core.serialization import dumps
from skate.engine.ray.carrying import Carried, attached, carried
from skate.engine.ray.errors import sent
from skate.engine.ray.options import task_options
from skate.engine.specs import FunctionSpec, TaskOptions

Retried = bool | tuple[type[BaseException], ...]

_REMEMBERED = 64  # options per function whose translation is kept


def remote_function(spec: FunctionSpec, options: TaskOptions, session: object) -> Any:
    """Return Ray's remote function with these options; made once."""
    if spec.exported is None or spec.exported[0] is not session:
        spec.exported = (session, _Exports(spec))
    exports: _Exports = spec.exported[1]
    return exports.with_options(options)


class _Exports:
    """One function in the forms that Ray knows it by."""

    def __init__(self, spec: FunctionSpec) -> None:
        self._spec = spec
        self._function = Carried(dumps(spec.function, spec.name))
        self._forms: dict[Any, Any] = {}
        self._translated: dict[int, tuple[TaskOptions, Any]] = {}

    def with_options(self, options: TaskOptions) -> Any:
        # Options cannot be hashed, but those of a remote function stay the same object.
        known = self._translated.get(id(options))
        if known is not None:
            return known[1]
        translated, given = self._form(options), task_options(options)
        if given:
            translated = translated.options(**given)
        if len(self._translated) >= _REMEMBERED:
            self._translated.clear()
        self._translated[id(options)] = (options, translated)
        return translated

    def _form(self, options: TaskOptions) -> Any:
        key = (options.num_returns, options.max_calls, options.retry_exceptions)
        if key not in self._forms:
            task = _form(options)(self._function, self._spec.name)
            _name_like(task, self._spec.function, self._spec.name)
            given = {} if options.max_calls is None else {"max_calls": options.max_calls}
            self._forms[key] = ray.remote(**given)(task) if given else ray.remote(task)
        return self._forms[key]


def _name_like(task: Any, function: object, name: str) -> None:
    inner = getattr(function, "func", function)  # of a functools.partial
    task.__name__ = name
    task.__qualname__ = getattr(inner, "__qualname__", name)
    task.__module__ = getattr(inner, "__module__", None) or task.__module__


# -- in the worker -------------------------------------------------------------------------------
# These closures travel by value, with the user's function in the place of its `Carried`.


def _form(options: TaskOptions) -> Callable[[Any, str], Callable[..., Any]]:
    num_returns = options.num_returns
    if isinstance(num_returns, int):
        return _single if num_returns == 1 else _several(num_returns)
    return _streaming if num_returns == "streaming" else _dynamic(options.retry_exceptions)


def _single(function: Any, name: str) -> Callable[..., Any]:
    def task(*args: object, **kwargs: object) -> Any:
        attached()
        try:
            return answer(function(*args, **kwargs), 1, name)
        except Exception as error:
            raise sent(error, name) from None

    return task


def _several(count: int) -> Callable[[Any, str], Callable[..., Any]]:
    def form(function: Any, name: str) -> Callable[..., Any]:
        def task(*args: object, **kwargs: object) -> Any:
            attached()
            try:
                return answer(function(*args, **kwargs), count, name)
            except Exception as error:
                raise sent(error, name) from None

        return task

    return form


def _streaming(function: Any, name: str) -> Callable[..., Any]:
    def task(*args: object, **kwargs: object) -> Any:
        attached()
        try:
            for item in items(function(*args, **kwargs), name):
                yield carried(item, "item")
        except Exception as error:
            raise sent(error, name) from None

    return task


def _dynamic(retried: Retried) -> Callable[[Any, str], Callable[..., Any]]:
    def form(function: Any, name: str) -> Callable[..., Any]:
        def task(*args: object, **kwargs: object) -> Any:
            attached()
            try:
                return collected(function(*args, **kwargs), name, retried)
            except Exception as error:
                raise sent(error, name) from None

        return task

    return form


def collected(value: object, name: str, retried: Retried = False) -> Carried:
    """Put all items and carry their references as one value; an error on the way is the last of
    them, unless the call is to be made again.

    Ray's own num_returns="dynamic" is on its way out.
    """
    engine, refs = attached(), []
    try:
        for item in items(value, name):
            refs.append(engine.put(item))
    except Exception as error:
        if retried is True or (retried and isinstance(error, retried)):
            raise
        refs.append(engine.put_error(sent(error, name), name))
    return Carried(dumps(DynamicObjectRefGenerator(refs), "result"))


def answer(value: object, count: int, name: str) -> Any:
    """Return what a call with a fixed number of values gives to Ray, which can take a
    generator."""
    if isinstance(value, GeneratorType):
        return _carried_items(value, name)
    return carried(value, "result") if count == 1 else split(value, count)


def _carried_items(generator: Iterator[object], name: str) -> Iterator[Any]:
    try:
        for item in generator:
            yield carried(item, "result")
    except Exception as error:
        raise sent(error, name) from None


def split(value: object, count: int) -> list[Any] | None:
    """Return a returned value as `count` values for Ray."""
    if count == 0:
        return None
    if not hasattr(value, "__iter__"):
        kind = type(value).__name__
        raise TypeError(f"num_returns={count}, but the task returned one {kind}")
    values = [carried(item, "result") for item in value]
    if len(values) != count:
        raise ValueError(f"Task returned {len(values)} objects, but num_returns={count}")
    return values


def items(value: Any, name: str) -> Iterator[Any]:
    if not hasattr(value, "__next__"):
        kind = type(value).__name__
        raise TypeError(f'num_returns="streaming" needs a generator; {name} returned {kind}')
    iterator: Iterator[Any] = value
    return iterator
