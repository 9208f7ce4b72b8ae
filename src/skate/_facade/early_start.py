"""Work that is to come, announced before `init`, or before the work itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from skate.engine import installed_engine

VARIABLE = "SKATE_EARLY_START"  # "0": nothing starts before it is used
_ELSEWHERE = ("SKATE_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR")  # work goes to a cluster


def expect_work(modules: Sequence[str] | None = None, more_at_once: bool = True) -> None:
    """Have workers that will be started begin with these modules.

    Args:
        modules: What they will need; None is what this process uses by now.
        more_at_once: Whether what else this process uses follows at once, or only when there is
            a session that leaves time for it: workers that are asked for meanwhile wait.
    """
    engine = installed_engine()
    if engine is not None:
        engine.warm_up(modules)
    elif _would_be_local():
        from skate.engine.local import early_server

        early_server.begin(modules, more_at_once)


def _would_be_local() -> bool:
    """Return whether a session of this process would most likely be one with processes, here."""
    if os.environ.get(VARIABLE) == "0" or any(os.environ.get(name) for name in _ELSEWHERE):
        return False
    if os.environ.get("SKATE_ENGINE") not in (None, "", "local"):
        return False
    return not (_forks_workers() or _is_child_of_others())


def _forks_workers() -> bool:
    """Return whether this is a fork server, which imports what others have announced."""
    server = sys.modules.get("skate.engine.local.forkserver")
    return server is not None and bool(server.serves)


def _is_child_of_others() -> bool:
    """Return whether this is a process of multiprocessing, or one that has loaded Ray itself."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        # It knows its parent only after it has imported the program, as which it is marked.
        is_beginning = getattr(multiprocessing.current_process(), "_inheriting", False)
        if is_beginning or multiprocessing.parent_process() is not None:
            return True
    raylet = sys.modules.get("ray._raylet")
    return raylet is not None and bool(raylet.__spec__ and raylet.__spec__.origin)
