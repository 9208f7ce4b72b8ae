"""How a user's function wants to be called: the eras differ in what comes after the config."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from skate._run.checkpoint import Checkpoint
from skate._run.context import SessionInfo
from skate._run.session import report
from skate._run.types import Config
from skate.tune.result import DEFAULT_METRIC

CHECKPOINT_NAMES = ("checkpoint", "checkpoint_dir")

_known: WeakKeyDictionary[Callable[..., object], dict[str, inspect.Parameter]] = (
    WeakKeyDictionary()
)


class StatusReporter:
    """The second argument of functions that take one: it is called to report, and knows the
    trial."""

    def __init__(self, info: SessionInfo) -> None:
        self.trial_id = info.trial_id
        self.trial_name = info.trial_name
        self.trial_resources = info.trial_resources
        self.logdir = info.trial_dir

    def __call__(self, *args: Any, **metrics: Any) -> None:
        report(*args, **metrics)


def free_parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the parameters that no partial binds; kept, as a process asks for each of its
    trials."""
    try:
        known = _known.get(function)
    except TypeError:  # no hash, or no weak reference
        return _look_up_parameters(function)
    if known is None:
        known = _known[function] = _look_up_parameters(function)
    return known


def _look_up_parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    bound = set(function.keywords) if isinstance(function, functools.partial) else set()
    try:
        found: Any = inspect.signature(function).parameters
    except (TypeError, ValueError):  # builtins and other callables without a signature
        found = {"config": inspect.Parameter("config", inspect.Parameter.POSITIONAL_ONLY)}
    return {name: p for name, p in found.items() if name not in bound}


def arguments_for(
    function: Callable[..., object],
    config: Config,
    checkpoint: Checkpoint | None,
    reporter: Callable[..., None],
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Choose the arguments of a call: `f(config)`, `f(config, checkpoint=None)`, `f(config,
    checkpoint_dir=None)`, `f(config, reporter)` or `f()`. Where there is no checkpoint, defaults
    stay."""
    parameters = free_parameters(function)
    given = {
        name: _value_for(name, checkpoint)
        for name in CHECKPOINT_NAMES
        if name in parameters
        and (checkpoint is not None or parameters[name].default is inspect._empty)
    }
    positional = [
        name
        for name, p in parameters.items()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and name not in CHECKPOINT_NAMES
    ]
    required = [name for name in positional if parameters[name].default is inspect._empty]
    if "reporter" in positional or len(required) == 2:
        return (config, reporter), given
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    return ((config,) if positional or open_ended else ()), given


def _value_for(name: str, checkpoint: Checkpoint | None) -> object:
    if name == "checkpoint_dir":
        return folder_of(checkpoint)
    return None if checkpoint is None else checkpoint.value


def folder_of(checkpoint: Checkpoint | None) -> str | None:
    """Return the folder of a checkpoint, also if it is a single file."""
    if checkpoint is None:
        return None
    path: str = checkpoint.path
    return os.path.dirname(path) if os.path.isfile(path) else path


def metrics_of(returned: object) -> dict[str, object] | None:
    """Return the last result, if a function returned or yielded one."""
    if returned is None:
        return None
    if isinstance(returned, dict):
        return returned
    if isinstance(returned, (int, float)) or hasattr(returned, "item"):
        return {DEFAULT_METRIC: returned}
    raise ValueError(
        f"a trial may return None, a number or a dictionary of metrics; got "
        f"{type(returned).__name__}: {returned!r}"
    )
