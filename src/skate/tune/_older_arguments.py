"""Arguments that `tune.run` had once, in today's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from skate._core.nearest import unknown_parameter

# About services that do not exist here, with the values that ask for nothing; `...` is any.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "global_checkpoint_period": (...,),
    "queue_trials": (...,),
    "ray_auto_init": (...,),
    "server_port": (...,),
    "sync_on_checkpoint": (...,),
    "return_trials": (None, False),
    "sync_function": (None,),
    "sync_to_cloud": (None, False, True),
    "sync_to_driver": (None, False, True),
    "trial_executor": (None,),
    "with_server": (None, False),
}


class Today(NamedTuple):
    """What older arguments come to."""

    callbacks: list[Any]
    storage_path: Any


def in_todays_words(former: Mapping[str, Any], known: Iterable[str]) -> Today:
    """`loggers` as callbacks and `upload_dir` as the storage path. TypeError for what no Ray ever
    had, ValueError for what cannot be had here."""
    rest = dict(former)
    loggers, upload_dir = rest.pop("loggers", None), rest.pop("upload_dir", None)
    for name, value in rest.items():
        if name not in _WITHOUT_EFFECT:
            older = ["loggers", "upload_dir", *_WITHOUT_EFFECT]
            raise unknown_parameter("tune.run", name, [*known, *older])
        allowed = _WITHOUT_EFFECT[name]
        if ... not in allowed and value not in allowed:
            raise ValueError(
                f"tune.run({name}={value!r}) is of an earlier Ray and not offered: leave it out, "
                f"or give {' or '.join(map(repr, allowed))}"
            )
    return Today(_as_callbacks(loggers or ()), upload_dir)


def _as_callbacks(loggers: Iterable[Any]) -> list[Any]:
    from skate.tune.logger import DEFAULT_LOGGERS, LegacyLoggerCallback

    own = [logger for logger in loggers if logger not in DEFAULT_LOGGERS]  # those write anyway
    return [LegacyLoggerCallback(own)] if own else []
