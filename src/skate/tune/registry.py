"""Trainables and environments by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from skate.tune.error import TuneError

_trainables: dict[str, Any] = {}
_environments: dict[str, Callable[..., Any]] = {}


def register_trainable(name: str, trainable: object, warn: bool = True) -> None:
    """Make a trainable usable by its name, as in `tune.run("name")`.

    Args:
        name: The name.
        trainable: A function, a class of trainables, or a trainer.
        warn: Without effect: it is for functions that are no trainables, which are an error here.

    Raises:
        TypeError: If it is no trainable.

    Example:
        >>> from skate import tune
        >>> tune.register_trainable("square", lambda config: {"y": config["x"] ** 2})
        >>> tuner = tune.Tuner("square", param_space={"x": 3}, run_config={"verbose": 0})
        >>> tuner.fit()[0].metrics["y"]
        9
    """
    from skate.tune.trainable.trainable import Trainable

    if inspect.isclass(trainable) and not issubclass(trainable, Trainable):
        raise TypeError(f"the class must be a tune.Trainable; got {trainable!r}")
    if not callable(trainable) and not hasattr(trainable, "fit"):
        raise TypeError(f"a trainable is a function or a class; got {trainable!r}")
    _trainables[name] = trainable


def get_trainable_cls(name: str) -> Any:
    """Look up the trainable of that name."""
    if name not in _trainables:
        raise TuneError(
            f"there is no trainable {name!r}; registered are {sorted(_trainables)}: register it "
            f"with tune.register_trainable(name, trainable), or give the trainable itself"
        )
    return _trainables[name]


def is_registered(name: str) -> bool:
    """Return whether there is a trainable of that name."""
    return name in _trainables


def register_env(name: str, env_creator: Callable[..., object]) -> None:
    """Make an environment of reinforcement learning usable by its name.

    Args:
        name: The name.
        env_creator: Makes the environment from a configuration.

    Raises:
        TypeError: If it is no function.
    """
    if not callable(env_creator):
        raise TypeError(f"env_creator takes a function; got {env_creator!r}")
    _environments[name] = env_creator


def get_env(name: str) -> Callable[..., Any]:
    """Look up the function that makes the environment of that name."""
    if name not in _environments:
        raise ValueError(f"there is no environment {name!r}; there are {sorted(_environments)}")
    return _environments[name]
