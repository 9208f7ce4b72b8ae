"""Trainables with parameters and resources of their own."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from skate._core.signature import show_signature
from skate._run.types import Config
from skate.tune.execution.placement_groups import PlacementGroupFactory, as_resources
from skate.tune.trainable.trainable import Trainable


def _check(trainable: Any, name: str) -> None:
    is_class = inspect.isclass(trainable)
    if not callable(trainable) or (is_class and not issubclass(trainable, Trainable)):
        raise ValueError(
            f"tune.{name} takes a function or a subclass of tune.Trainable; got "
            f"{type(trainable).__name__}: {trainable!r}"
        )


class _Parameters:
    """Values in the object store, put there when the trainable is first sent."""

    def __init__(self, values: dict[str, object]) -> None:
        self._values: dict[str, Any] | None = values
        self._refs: dict[str, Any] | None = None
        self._session: str | None = None  # the one that the references belong to

    def get(self) -> dict[str, Any]:
        import skate

        if self._values is None:
            refs = self._refs or {}
            self._values = dict(zip(refs, skate.get(list(refs.values())), strict=True))
        return self._values

    def __getstate__(self) -> dict[str, object]:
        import skate

        if not skate.is_initialized():  # written to a file, for a program to come
            return {"_values": self._values, "_refs": None, "_session": None}
        session = skate.get_runtime_context().get_session_name()
        if self._refs is None or session != self._session:
            self._refs = {name: _stored(value) for name, value in self.get().items()}
            self._session = session
        return {"_values": None, "_refs": self._refs, "_session": session}


def _stored(value: object) -> object:
    """Return a reference to the value, which may be one already."""
    import skate

    return value if isinstance(value, skate.ObjectRef) else skate.put(value)


def with_parameters(trainable: Any, **kwargs: object) -> Any:
    """Give a trainable more arguments, which may be large: they are stored once and shared.

    Args:
        trainable: A function, which gets them beside the config, or a class, in `setup`.
        **kwargs: The arguments.

    Returns:
        A trainable for the tuner.

    Example:
        >>> from skate import tune
        >>> def total(config, numbers):
        ...     return {"total": config["factor"] * sum(numbers)}
        >>> tuner = tune.Tuner(
        ...     tune.with_parameters(total, numbers=[1, 2, 3]),
        ...     param_space={"factor": 2},
        ...     run_config={"verbose": 0},
        ... )
        >>> tuner.fit()[0].metrics["total"]
        12
    """
    _check(trainable, "with_parameters()")
    parameters = _Parameters(kwargs)
    if inspect.isclass(trainable):
        return _class_with_parameters(trainable, parameters)
    return _function_with_parameters(trainable, parameters)


def _class_with_parameters(trainable: Any, parameters: _Parameters) -> object:
    class WithParameters(trainable):  # type: ignore[misc]
        def setup(self, config: Config) -> None:
            super().setup(config, **parameters.get())

    WithParameters.__name__ = trainable.__name__
    return WithParameters


def _function_with_parameters(trainable: Callable[..., object], parameters: _Parameters) -> object:
    from skate.tune.trainable._calls import CHECKPOINT_NAMES, free_parameters

    names = parameters.get()
    free = {k: p for k, p in free_parameters(trainable).items() if k not in names}
    takes_checkpoint = [name for name in CHECKPOINT_NAMES if name in free]

    def with_values(config: Config, **more: object) -> Any:
        return trainable(config, **more, **parameters.get())

    with_values.__name__ = getattr(trainable, "__name__", "tune_with_parameters")
    own = inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    more = [free[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in takes_checkpoint]
    show_signature(with_values, inspect.Signature([own, *more]))
    if hasattr(trainable, "_resources"):
        vars(with_values)["_resources"] = trainable._resources
    return with_values


def with_resources(trainable: Any, resources: object) -> Any:
    """Say what each trial of a trainable needs.

    Args:
        trainable: The trainable.
        resources: A dictionary as `{"cpu": 2, "gpu": 0.5}`, a PlacementGroupFactory, a
            ScalingConfig, or a function of the config that returns one.

    Returns:
        A trainable for the tuner.

    Example:
        >>> from skate import tune
        >>> def resources(config):
        ...     return {"cpus": tune.get_trial_resources().required_resources["CPU"]}
        >>> trainable = tune.with_resources(resources, {"cpu": 2})
        >>> tuner = tune.Tuner(trainable, run_config={"verbose": 0})
        >>> tuner.fit()[0].metrics["cpus"]
        2.0
    """
    _check(trainable, "with_resources()")
    is_function = callable(resources) and not isinstance(resources, PlacementGroupFactory)
    wanted: Any = resources if is_function else as_resources(resources)
    if inspect.isclass(trainable):

        class WithResources(trainable):  # type: ignore[misc]
            @classmethod
            def default_resource_request(cls, config: Config) -> Any:
                return as_resources(wanted(config)) if is_function else wanted

        WithResources.__name__ = trainable.__name__
        return WithResources
    asking: Any = _calling(trainable)
    asking._resources = wanted
    return asking


def _calling(trainable: Callable[..., object]) -> Callable[..., Any]:
    """Make a function that calls another: what this one is marked with is not the other's."""

    def function(*args: object, **kwargs: object) -> Any:
        return trainable(*args, **kwargs)

    if isinstance(trainable, types.FunctionType):
        vars(function).update(vars(trainable))
    inner = getattr(trainable, "func", trainable)
    function.__name__ = getattr(inner, "__name__", "trainable")
    function.__doc__ = inner.__doc__
    with suppress(TypeError, ValueError):  # builtins and other callables without a signature
        show_signature(function, inspect.signature(trainable))
    return function
