"""Actors: a Ray actor that hosts an object of the user's class.

A host has the user's methods under their own names, and a few general ones for calls with options,
which name the user's method as their first argument. The user's class stays as it is: no subclass
of it is made, whatever it does with its metaclass.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from time import perf_counter
from typing import Any

import ray
from ray.exceptions import AsyncioActorExit
from ray.experimental import internal_kv

from skate._core.errors import unknown_concurrency_group
from skate._core.serialization import dumps, loads
from skate.engine.ray.carrying import Carried, attached, carried
from skate.engine.ray.errors import sent
from skate.engine.ray.functions import answer, collected, items, split
from skate.engine.ray.options import call_options
from skate.engine.specs import (
    ActorMeta,
    ActorOptions,
    CallOptions,
    ClassSpec,
    method_of,
    unfinished,
)

_hosted: ActorMeta | None = None  # of the actor in this process: each has one of its own
_ASKED_EVERY = 0.02  # seconds between looks for a cancellation of a stream
_PLAIN_CALL = CallOptions()
_PLAIN_REPR: Any = object.__repr__


def hosted_meta() -> ActorMeta | None:
    """Return what is known of the actor that runs in this process, if one does."""
    return _hosted


def is_cancelled() -> bool:
    """Return whether someone has cancelled the call that asks. Not known to Ray before 2.49."""
    ask = getattr(ray.get_runtime_context(), "is_canceled", None)
    try:
        return bool(ask and ask())
    except RuntimeError:
        return False  # async actors are interrupted


class _Host:
    """What both kinds share. Subclasses are made per class of the user's."""

    _cls: Any  # the user's class; a `Carried` of it before it travels
    _meta: ActorMeta

    def __init__(self, /, *args: object, **kwargs: object) -> None:
        self._announce()
        try:
            self._instance = self._cls(*args, **kwargs)
        except Exception as error:
            raise sent(error, f"{self._meta.class_name}.__init__") from None

    def _announce(self) -> None:
        global _hosted
        attached()
        _hosted = self._meta

    def _invoke(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if method == "__ray_ready__":
            return True
        if method == "__ray_terminate__":
            return ray.actor.exit_actor()
        if method == "__ray_call__":
            function, *rest = args
            return function(self._instance, *rest, **kwargs)
        return method_of(self._instance, method)(*args, **kwargs)

    def _sent(self, error: Exception, method: str) -> BaseException:
        if isinstance(error, AsyncioActorExit):
            leaving: Exception = error
            return leaving
        return sent(error, f"{self._meta.class_name}.{method}", self._shown())

    def _shown(self) -> str:
        """Return what the user made `repr` say, for errors."""
        if type(self._instance).__repr__ is _PLAIN_REPR:
            return ""
        try:
            return repr(self._instance)
        except Exception:
            return ""


class Host(_Host):
    """The host of a class without async methods."""

    def constructed(self) -> None:
        """Answer when the constructor is done."""

    def call(self, method: str, /, *args: object, **kwargs: object) -> Any:
        try:
            return answer(self._invoke(method, args, kwargs), 1, method)
        except Exception as error:
            raise self._sent(error, method) from None

    def several(self, method: str, count: int, /, *args: object, **kwargs: object) -> Any:
        try:
            return answer(self._invoke(method, args, kwargs), count, method)
        except Exception as error:
            raise self._sent(error, method) from None

    def dynamic(self, method: str, /, *args: object, **kwargs: object) -> Any:
        try:
            return collected(self._invoke(method, args, kwargs), method)
        except Exception as error:
            raise self._sent(error, method) from None

    def stream(self, method: str, /, *args: object, **kwargs: object) -> Iterator[Any]:
        try:
            asked = perf_counter()
            for item in items(self._invoke(method, args, kwargs), method):
                yield carried(item, "item")
                # Ray interrupts tasks, but not the methods of actors. Asking takes as long as an
                # item does.
                if perf_counter() - asked > _ASKED_EVERY:
                    if is_cancelled():
                        return
                    asked = perf_counter()
        except Exception as error:
            raise self._sent(error, method) from None


class AsyncHost(_Host):
    """The host of a class with async methods: all its methods run on one event loop."""

    async def constructed(self) -> None:
        """Answer when the constructor is done."""

    async def call(self, method: str, /, *args: object, **kwargs: object) -> Any:
        try:
            return carried(await self._awaited(method, args, kwargs), "result")
        except Exception as error:
            raise self._sent(error, method) from None

    async def several(self, method: str, count: int, /, *args: object, **kwargs: object) -> Any:
        try:
            return split(await self._awaited(method, args, kwargs), count)
        except Exception as error:
            raise self._sent(error, method) from None

    async def dynamic(self, method: str, /, *args: object, **kwargs: object) -> Any:
        try:
            value = await self._awaited(method, args, kwargs)
            if inspect.isasyncgen(value):
                value = iter([item async for item in value])
            return collected(value, method)
        except Exception as error:
            raise self._sent(error, method) from None

    async def stream(self, method: str, /, *args: object, **kwargs: object) -> AsyncIterator[Any]:
        try:
            value = await self._awaited(method, args, kwargs)
            if not inspect.isasyncgen(value):
                for item in items(value, method):
                    yield carried(item, "item")
                return
            async for item in value:
                yield carried(item, "item")
        except Exception as error:
            raise self._sent(error, method) from None

    async def _awaited(self, method: str, args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
        value = self._invoke(method, args, kwargs)
        return await value if inspect.isawaitable(value) else value


# -- classes for Ray -----------------------------------------------------------------------------


def host_class(spec: ClassSpec, options: ActorOptions, session: object) -> Any:
    """Return Ray's actor class that hosts the user's; made once per set of concurrency groups."""
    if spec.exported is None or spec.exported[0] is not session:
        spec.exported = (session, {})
    groups = options.concurrency_groups
    known = spec.exported[1]
    key = tuple(sorted(groups.items()))
    if key not in known:
        cls = _make(spec)
        known[key] = (
            ray.remote(concurrency_groups=dict(groups))(cls) if groups else ray.remote(cls)
        )
    return known[key]


def _make(spec: ClassSpec) -> type:
    meta = spec.meta
    body: dict[str, Any] = {"_cls": Carried(dumps(spec.cls, meta.class_name)), "_meta": meta}
    body.update(_direct_methods(meta), __module__=meta.module)
    if spec.cls.__repr__ is not _PLAIN_REPR:
        body["__repr__"] = _repr_of_instance
    if inspect.iscoroutinefunction(spec.cls.__init__):
        body["__init__"] = _async_init
    if hasattr(spec.cls, "__ray_shutdown__"):
        body["__ray_shutdown__"] = _shutdown_of_instance
    return type(meta.class_name, (AsyncHost if meta.is_async else Host,), body)


async def _async_init(self: Any, /, *args: object, **kwargs: object) -> None:
    """Stand in for the host's `__init__` where the user's is async: Ray waits for it too."""
    self._announce()
    try:
        made = unfinished(self._cls, args, kwargs)
        await made.__init__(*args, **kwargs)
    except Exception as error:
        raise sent(error, f"{self._meta.class_name}.__init__") from None
    self._instance = made


def _direct_methods(meta: ActorMeta) -> dict[str, Any]:
    """Return the user's methods under their own names, so that a plain call says nothing but
    that."""
    direct = _direct_async if meta.is_async else _direct
    return {
        name: direct(name)
        for name, method in meta.methods.items()
        if not method.is_generator and _is_direct(name)
    }


def _is_direct(name: str) -> bool:
    """Return whether the name is free: neither Python nor Ray nor the host means something by
    it."""
    return not name.startswith("__") and name not in _RESERVED


def _direct(name: str) -> Any:
    def method(self: Any, /, *args: object, **kwargs: object) -> Any:
        try:
            return carried(method_of(self._instance, name)(*args, **kwargs), "result")
        except Exception as error:
            raise self._sent(error, name) from None

    return method


def _direct_async(name: str) -> Any:
    async def method(self: Any, /, *args: object, **kwargs: object) -> Any:
        try:
            return carried(await self._awaited(name, args, kwargs), "result")
        except Exception as error:
            raise self._sent(error, name) from None

    return method


_RESERVED = frozenset((*dir(Host), *dir(AsyncHost), "_instance", "_cls", "_meta"))


def caller(actor: Any, method: str, options: CallOptions) -> Callable[[Any, Any], Any]:
    """Return what calls a method of the user's through the handle of its host."""
    handle, group = actor.handle, options.concurrency_group
    if options == _PLAIN_CALL and _is_direct(method) and hasattr(handle, method):
        direct = getattr(handle, method).remote
        return lambda args, kwargs: direct(*args, **kwargs)
    if group and actor.groups is not None and group not in actor.groups:
        raise unknown_concurrency_group(group, actor.groups)  # Ray would end the actor
    name = f"{handle._ray_actor_creation_function_descriptor.class_name}.{method}"
    form, *first = _form(handle, method, options.num_returns)
    remote = form.options(**call_options(options, name)).remote
    return lambda args, kwargs: remote(*first, *args, **kwargs)


def _form(handle: Any, method: str, num_returns: int | str) -> tuple[Any, ...]:
    """Return the method of the host and its first arguments."""
    if num_returns == "streaming":
        return handle.stream, method
    if num_returns == "dynamic":
        return handle.dynamic, method
    return (handle.call, method) if num_returns == 1 else (handle.several, method, num_returns)


def _repr_of_instance(host: _Host) -> str:
    return host._shown() or host._meta.class_name


def _shutdown_of_instance(host: _Host) -> None:
    host._instance.__ray_shutdown__()


# -- what handles know, for those who meet an actor by its name -----------------------------------


def publish_meta(host: Any, meta: ActorMeta) -> None:
    """Tell the cluster what methods the actors of a class have, before the first has a name."""
    key = _key(host.__ray_metadata__.actor_creation_function_descriptor)
    if not internal_kv._internal_kv_exists(key):
        internal_kv._internal_kv_put(key, pickle.dumps(dumps(meta, "methods").packed()))


def published_meta(handle: Any) -> ActorMeta:
    """Return what `publish_meta` told. Raise ValueError for an actor that skate did not make."""
    found = internal_kv._internal_kv_get(_key(handle._ray_actor_creation_function_descriptor))
    if found is None:
        raise ValueError(
            f"{handle!r} was not made by skate, so that its methods are unknown here: use "
            "ray.get_actor for it"
        )
    meta: ActorMeta = loads(pickle.loads(found))
    return meta


def _key(descriptor: Any) -> bytes:
    return f"skate-actor:{descriptor.function_hash}".encode()
