"""Something that begins and ends with a trial, whose settings are a part of its configuration."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from skate._run.types import Config

Around = Callable[[Mapping[str, Any]], AbstractContextManager[None]]


def settings_of(config: Mapping[str, Any], name: str, needed: str) -> dict[str, Any]:
    """Return the part of a configuration under `name`, which must have the key `needed`."""
    settings = dict(config.get(name) or {})
    if needed not in settings:
        raise ValueError(
            f"config has no {needed!r} for {name}: add {name!r}: {{{needed!r}: ...}}; "
            f"got {sorted(config)}" + (f" and {name!r}: {settings!r}" if settings else "")
        )
    return settings


def around(func: Callable[..., object], inside: Around) -> Callable[..., object]:
    """Wrap the function to be called inside of the block that its configuration asks for."""

    @functools.wraps(func)
    def mixed(config: Config, *args: object, **kwargs: object) -> object:
        with inside(config):
            return func(config, *args, **kwargs)

    return mixed


class Mixin:
    """The base of such classes. The block is entered with the trainable, and left by `stop`."""

    _around: Around

    def __init__(self, config: Config | None = None, *args: object, **kwargs: object) -> None:
        from skate.tune import Trainable

        if not isinstance(self, Trainable):
            name = type(self).__name__
            raise ValueError(f"{name} is no Trainable: write class {name}(..., tune.Trainable)")
        self._block = self._around(config or {})
        self._block.__enter__()
        super().__init__(config, *args, **kwargs)  # type: ignore[call-arg]

    def stop(self) -> None:
        try:
            super().stop()  # type: ignore[misc]
        finally:
            self._block.__exit__(None, None, None)
