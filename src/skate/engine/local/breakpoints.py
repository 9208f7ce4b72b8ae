"""`breakpoint()` in a worker, which has no terminal: an error that says what to do instead."""

from __future__ import annotations

import os
import sys

_VARIABLE = "PYTHONBREAKPOINT"
_NEEDS_TERMINAL = ("", "pdb.set_trace")  # what it stands for, if it is not said


def install() -> None:
    """Take the place of the usual hook; that of a debugger which is attached stays."""
    if sys.breakpointhook is sys.__breakpointhook__:
        sys.breakpointhook = _hook


def _hook(*args: object, **kwargs: object) -> object:
    if os.environ.get(_VARIABLE, "") not in _NEEDS_TERMINAL:
        return sys.__breakpointhook__(*args, **kwargs)
    raise RuntimeError(
        "breakpoint() was called in a worker process, which has no terminal. Run the program with "
        "the environment variable SKATE_ENGINE=inline, or skate.init(engine='inline'): tasks and "
        "actors run in the program's own process then. Or set PYTHONBREAKPOINT to a debugger that "
        "needs no terminal, as debugpy.breakpoint; 0 ignores breakpoints"
    )
