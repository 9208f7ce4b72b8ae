"""A fork server that begins before there is a session: while a program imports and loads what it
needs, that is imported for its workers too."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import NamedTuple

from skate.engine.local import forkserver
from skate.engine.local.hub.servers import ForkServer, imports_for

# By the imports of scikit-learn, XGBoost, LightGBM, Polars and Lightning: in a server too.
_SET_BY_IMPORTS = frozenset(
    (
        "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "_RJEM_MALLOC_CONF",
        "TORCHINDUCTOR_CACHE_DIR", "PYTORCH_NVML_BASED_CUDA_CHECK",
    )
)  # fmt: skip


class EarlyServer(NamedTuple):
    """A server that nobody uses yet, and what its imports may have looked at."""

    server: ForkServer
    environ: dict[str, str]
    driver: int
    later: list[str]  # what it is to import when a session leaves time for it


_early: EarlyServer | None = None
_begun = False


def begin(modules: Sequence[str] | None, more_at_once: bool = True) -> None:
    """Start a server, once in the life of a program, or have it import more; another one if the
    environment has changed since.

    It ends with the program, or by itself if no session begins for a minute. Where there is a
    single processor it would only keep the program from its own imports.

    Args:
        modules: What the workers will need; None is what the program uses by now.
        more_at_once: Whether what can wait is imported before there is a session.
    """
    global _early, _begun
    if forkserver.serves:
        return
    at_once, later = imports_for(modules)
    if _early is not None and _early.driver == os.getpid():
        if _early.environ == _environ():
            _early.server.also_import(at_once)
            return
        _early.server.end_at_once()
        at_once = list(dict.fromkeys([*_early.server.preload, *at_once]))
        _early, _begun = None, False
    if not _begun and at_once and len(os.sched_getaffinity(0)) > 1:
        _begun = True
        try:
            server = ForkServer([], at_once, later if more_at_once else [])
        except OSError:  # whoever needs one will try again, and say why not
            return
        postponed = [] if more_at_once else later
        _early = EarlyServer(server, _environ(), os.getpid(), postponed)
        atexit.register(_end)
        import skate.engine.local.engine  # noqa: F401  # meanwhile, rather than by the first call


def adopt(session_dirs: list[str]) -> ForkServer | None:
    """Return the server, if there is one, as that of a session; None if its imports may have seen
    another environment than those of the session's own servers would."""
    global _early
    early, _early = _early, None
    if early is None or early.driver != os.getpid():
        return None
    if early.environ == _environ():
        try:
            early.server.serve_session(session_dirs, early.later)
            return early.server
        except OSError:  # it has ended
            pass
    early.server.end_at_once()
    return None


def _environ() -> dict[str, str]:
    """Return the environment, as far as it is not libraries that have set it for themselves."""
    return {name: text for name, text in os.environ.items() if name not in _SET_BY_IMPORTS}


def _end() -> None:
    if _early is not None and _early.driver == os.getpid():
        _early.server.end_at_once()
