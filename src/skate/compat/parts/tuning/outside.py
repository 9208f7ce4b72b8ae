"""What `ray.tune` asks a trial for, also where there is none: then it warns, as Ray does.

Programs for Ray call the function of a trial by itself, too, to try it out; and functions that
start a training under a name with the trial's id.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from skate._run import session as _session
from skate._run.checkpoint import Checkpoint
from skate._run.context import SessionInfo, TrainContext

__all__ = ["get_checkpoint", "get_context", "report"]

_UNKNOWN: dict[str, Any] = dict.fromkeys(
    ("experiment_name", "trial_name", "trial_id", "trial_dir")
)


@functools.wraps(_session.report, assigned=("__doc__",))  # it is pickled by its own name
def report(*args: Any, **kwargs: Any) -> None:
    """Report metrics, and perhaps a checkpoint, of a trial; see `skate.tune.report`."""
    if not is_outside("report"):
        _session.report(*args, **kwargs)


def get_checkpoint() -> Checkpoint | None:
    """Return the checkpoint that the trial is to go on from, if there is one."""
    return None if is_outside("get_checkpoint") else _session.get_checkpoint()


def get_context() -> TrainContext:
    """Return who and where this trial is; outside of one, a context that knows neither."""
    if is_outside("get_context"):
        return TrainContext(SessionInfo(**_UNKNOWN))
    return _session.get_context()


def is_outside(name: str) -> bool:
    """Return whether there is no run; then the caller of the caller is warned.

    Args:
        name: The function that was called.
    """
    try:
        _session.current(name)
    except _session.SessionMisuseError:
        warnings.warn(
            f"`{name}` is meant to only be called inside a function that is executed by a Tuner "
            "or Trainer: it does nothing here, and what it returns is empty",
            stacklevel=3,
        )
        return True
    return False
