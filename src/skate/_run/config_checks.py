"""What the configurations of runs share: how they are given, shown and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from numbers import Integral
from typing import Any, ClassVar, TypeVar

from skate._core.nearest import SpelledOut, unknown_parameter
from skate._core.optional_imports import ray_is_skate

STORAGE_VARIABLE = "SKATE_STORAGE"
DURABILITIES = ("process", "power")
DURABILITY_VARIABLE = "SKATE_DURABILITY"

AnyConfig = TypeVar("AnyConfig")


def default_storage_path() -> str:
    """Return the folder of runs that name no place of their own.

    Programs for Ray look for what they have written where Ray would have put it.
    """
    usual = "~/ray_results" if ray_is_skate() else "~/skate_results"
    return os.environ.get(STORAGE_VARIABLE) or os.path.expanduser(usual)


def checked_durability(value: str | None) -> str:
    """Return what a run's records must survive, as it was given or as the environment says."""
    source = "durability"
    if value is None and os.environ.get(DURABILITY_VARIABLE):
        value, source = os.environ[DURABILITY_VARIABLE], DURABILITY_VARIABLE
    value = "process" if value is None else value
    if value not in DURABILITIES:
        raise ValueError(
            f"{source} is one of {DURABILITIES}: what is recorded survives the death of every "
            f"process, or a power cut as well; got {value!r}"
        )
    return value


class WrongKindError(TypeError, ValueError):
    """An argument of a trainer or a search is something else than it should be. Ray raises a
    ValueError."""


def as_config(cls: type[AnyConfig], value: object) -> AnyConfig:
    """Make a configuration of what a user may write: itself, a dict, or None for the defaults."""
    if value is None:
        return cls()
    if isinstance(value, cls):
        return value
    if isinstance(value, Mapping):
        known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        for name in value:
            if name not in known:
                raise ValueError(str(unknown_parameter(cls.__name__, name, known)))
        return cls(**value)
    raise WrongKindError(
        f"expected a {cls.__name__} or a dict of its parameters; got {type(value).__name__}: "
        f"{value!r}"
    )


def check_whole(name: str, value: Any, least: int, meaning: str = "") -> None:
    """Raise ValueError unless an argument is a whole number from `least` on."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} takes a whole number from {least} on{meaning}; got {value!r}")


def may_retry(failures: int, max_failures: int) -> bool:
    """Return whether what has failed so often may be tried again.

    Args:
        failures: How often it has failed, with the last time.
        max_failures: How often it may; -1 is without end.
    """
    return max_failures < 0 or failures <= max_failures


def check_folder_name(parameter: str, name: object, place: str) -> None:
    """Raise unless it is the name of a folder inside of another, and does not lead out of that."""
    if not isinstance(name, str):
        raise TypeError(f"{parameter} is the name of a folder, a string; got {name!r}")
    if not name or name.startswith(("/", "~")) or ".." in name.split("/"):
        raise ValueError(
            f"{parameter} is the name of a folder inside of {place}, and cannot lead out of it; "
            f"got {name!r}"
        )


class Configuration(SpelledOut):
    """Shows only what differs from the defaults."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # subclasses are data classes

    def __repr__(self) -> str:
        parts = []
        for f in fields(self):
            value = getattr(self, f.name)
            default = f.default_factory() if f.default_factory is not MISSING else f.default
            if not _same(value, default):
                parts.append(f"{f.name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _same(value: object, default: object) -> bool:
    if value is None or default is None:
        return value is default
    return bool(value == default)
