"""Many models in one replica: `@serve.multiplexed` keeps the ones used last."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from skate._core.measurements import announce_measurements
from skate.serve._identity import ReplicaID
from skate.serve._measurements import RequestTimes, of_models
from skate.serve._replica.decorated_methods import owner_of
from skate.serve.context import current_replica, request_context

__all__ = ["get_multiplexed_model_id", "multiplexed"]

Loader = Callable[..., Any]  # async, of a model's id

_MODELS_ATTRIBUTE = "__serve_models__"  # where an instance, or a function, keeps its models


class LoadedModels:
    """The models that one loading function has loaded, the one used last at the end."""

    def __init__(self, load: Loader, limit: int) -> None:
        self._load = load
        self._limit = limit
        self._models: OrderedDict[str, Any] = OrderedDict()
        self._loading: set[str] = set()
        self._lock = asyncio.Lock()
        replica = current_replica()
        if replica is None:
            raise RuntimeError(
                "what is @serve.multiplexed can only be used within a deployment, whose replicas "
                "say which models they have; this code runs in none"
            )
        self._replica = replica
        self.replica_id: ReplicaID = replica.replica_id
        self.asked: int = 0
        self.load_times: RequestTimes = RequestTimes()
        self.unload_times: RequestTimes = RequestTimes()
        announce_measurements(self, of_models)

    @property
    def ids(self) -> list[str]:
        """The models that are loaded."""
        return list(self._models)

    async def get(self, model_id: object) -> Any:
        """Return the model, loaded if it is not there."""
        if not isinstance(model_id, str):
            raise TypeError(f"the model ID must be a string; got {model_id!r}")
        if not model_id:
            raise ValueError(
                "the model ID cannot be empty: call with handle.options("
                'multiplexed_model_id="...") or the HTTP header serve_multiplexed_model_id'
            )
        self.asked += 1
        if model_id in self._models:
            self._models.move_to_end(model_id)
            return self._models[model_id]
        self._loading.add(model_id)
        self._tell()
        try:
            async with self._lock:
                return await self._get_or_load(model_id)
        finally:
            self._loading.discard(model_id)
            self._tell()

    async def _get_or_load(self, model_id: str) -> object:
        if model_id not in self._models:
            if 0 < self._limit <= len(self._models):
                await self._unload_oldest()
            began = time.monotonic()
            self._models[model_id] = await self._load(model_id)
            self.load_times.count((), time.monotonic() - began)
        return self._models[model_id]

    async def _unload_oldest(self) -> None:
        _, model = self._models.popitem(last=False)
        began = time.monotonic()
        await _end(model)
        self.unload_times.count((), time.monotonic() - began)

    async def unload_all(self) -> None:
        """Unload all models, the one used last at the end."""
        while self._models:
            await self._unload_oldest()

    def _tell(self) -> None:
        """Tell routers, which prefer replicas that have the model, or are about to."""
        self._replica.models_changed(tuple({*self._models, *self._loading}))


async def _end(model: Any) -> None:
    end = getattr(model, "__del__", None)
    if end is None:
        return
    if inspect.iscoroutinefunction(end):
        await end()
    else:
        await asyncio.get_running_loop().run_in_executor(None, end)
    model.__del__ = lambda _: None  # for whoever calls it by hand: it has been done


def multiplexed(func: Loader | None = None, max_num_models_per_replica: int = 3) -> Any:
    """Make an `async def` function of a model's id the loader of models.

    A model is loaded when it is first asked for, and kept for those who ask for it later.

    Args:
        func: The function or method, which takes the id and returns the model; without it, the
            result is a decorator.
        max_num_models_per_replica: How many models are kept; beyond that, the one that was not
            used for longest is unloaded, and its `__del__` called. -1 is no limit.

    Returns:
        The function, or a decorator for it.

    Raises:
        TypeError: If it is no `async def` function of one argument, or the number is none.
        ValueError: If the number is neither positive nor -1.
    """
    if func is not None:
        _check(func)
    most = max_num_models_per_replica
    if isinstance(most, bool) or not isinstance(most, int):
        raise TypeError(f"max_num_models_per_replica must be an integer; got {most!r}")
    if most != -1 and most < 1:
        raise ValueError(
            f"max_num_models_per_replica must be positive, or -1 for no limit; got {most!r}"
        )

    def decorate(function: Loader) -> Any:
        _check(function)
        return _wrapped(function, most)

    return decorate if func is None else decorate(func)


def _check(function: Any) -> None:
    if not callable(function):
        raise TypeError(f"@serve.multiplexed is for a function or method; got {function!r}")
    if not inspect.iscoroutinefunction(function):
        raise TypeError(
            "@serve.multiplexed is for async functions or methods; "
            f"{function.__qualname__} is not 'async def'"
        )
    parameters = inspect.signature(function).parameters
    if not 1 <= len(parameters) <= 2:
        raise TypeError(
            "@serve.multiplexed is for functions with one 'model_id: str' argument, and methods "
            "with self and that one; "
            f"{function.__qualname__} takes {', '.join(parameters) or 'none'}"
        )


def _wrapped(function: Loader, limit: int) -> object:
    @functools.wraps(function)
    async def load(*args: object) -> Any:
        owner = owner_of(function, args)
        ids = args if owner is None else args[1:]
        if len(ids) != 1:
            raise TypeError(f"{function.__qualname__} takes one model ID; got {ids!r}")
        keeper: Any = load if owner is None else owner
        loaders: dict[str, LoadedModels] = keeper.__dict__.setdefault(_MODELS_ATTRIBUTE, {})
        if function.__name__ not in loaders:
            loader = function if owner is None else functools.partial(function, owner)
            loaders[function.__name__] = LoadedModels(loader, limit)
        return await loaders[function.__name__].get(ids[0])

    return load


async def unload_all(instance: object) -> None:
    """Unload the models of an instance that ends."""
    for models in getattr(instance, "__dict__", {}).get(_MODELS_ATTRIBUTE, {}).values():
        await models.unload_all()


def get_multiplexed_model_id() -> str:
    """Return the model that the current request asks for; "" if it asks for none."""
    return request_context().multiplexed_model_id
