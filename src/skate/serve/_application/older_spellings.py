"""What programs wrote for earlier versions of Ray: rewritten where it comes in, or explained."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from skate._core.argument_checks import unknown_names
from skate.serve._application.options import GivenOptions, Options

P = ParamSpec("P")
R = TypeVar("R")

_RENAMED_OPTIONS = {"max_concurrent_queries": "max_ongoing_requests"}
_REMOVED_OPTIONS = {
    "prev_version": "skate.serve sees by itself what changed; leave it out",
    "is_driver_deployment": "Ray dropped it in 2.11; use num_replicas",
}
_RUN = "write serve.run(app) with app = {name}.bind(...)"
_REMOVED_ATTRIBUTES = {
    "set_logging_config": "write deployment.options(logging_config=...)",
    "remote": _RUN
    + " and call .remote(...) on the handle; another deployment gets a handle where "
    "its bind is given {name}.bind(...), and not {name}",
}


def takes_older_options(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function with a deployment's options as keywords take older names of them.

    The error for a name that never was one says which are near; for one that is no more, what to
    write instead.
    """
    known = [name for name in inspect.signature(function).parameters if name[0] != "_"]

    @functools.wraps(function)
    def _with_older_options(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **_renamed(kwargs, known))

    return _with_older_options


def _renamed(given: GivenOptions, known: Iterable[str]) -> Options:
    options = {_RENAMED_OPTIONS.get(name, name): value for name, value in given.items()}
    options.pop("_internal", None)
    for name, value in options.items():
        if name in _REMOVED_OPTIONS:
            raise ValueError(
                f"a deployment has no {name}: {_REMOVED_OPTIONS[name]}; got {value!r}"
            )
    wrong = [name for name in options if name not in known and name[0] != "_"]
    if wrong:
        raise unknown_names("a deployment", wrong, [name for name in known if name != "self"])
    return options


def no_such_attribute(deployment: str, name: str) -> str:
    """Return the text of the AttributeError for `deployment.name`."""
    today = _REMOVED_ATTRIBUTES.get(name)
    text = f"deployment {deployment!r} has no attribute {name!r}"
    return f"{text}: {today.format(name=deployment)}" if today else text
