"""Which engine runs this process's work."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate.engine.base import CallTracer, Engine

_current: Engine | None = None
tracer: CallTracer | None = None  # makes the calls of the façade, if the session is traced
_at_end: list[Callable[[], None]] = []  # what `shutdown` calls
_is_ending: bool = False  # whether a session is being shut down
_is_over: bool = False  # whether the program is at its end, and its session has ended with it

changing: threading.RLock = threading.RLock()  # held while an engine is started or shut down


def current_engine() -> Engine:
    """Return the engine of this process; the first use starts the default one."""
    if _current is None:
        check_may_begin()
        from skate._facade.api import init

        init()
        assert _current is not None
    return _current


def check_may_begin() -> None:
    """Raise if no engine runs, and only `init` may start one.

    Raises:
        SkateSystemError: With RAY_ENABLE_AUTO_CONNECT=0, while a session is shut down, and at the
            end of the program.
    """
    if _current is not None:
        return
    if _is_ending:
        from skate.exceptions import SkateSystemError

        raise SkateSystemError("the session is being shut down: no call begins another one now")
    if _is_over:
        from skate.exceptions import SkateSystemError

        raise SkateSystemError(
            "the program is at its end, and its session has ended: handlers of atexit that need "
            "it are registered after init(), as the last one runs first"
        )
    if os.environ.get("RAY_ENABLE_AUTO_CONNECT") == "0":
        from skate.exceptions import SkateSystemError, library_name

        name = library_name()
        raise SkateSystemError(
            f"{name.capitalize()} has not been started yet. With RAY_ENABLE_AUTO_CONNECT=0 the "
            f"first call does not start it: call {name}.init()"
        )


def engine_of(ref: ObjectRef[object]) -> Engine:
    """Return the engine of this process, for a reference that exists: no session is begun.

    Raises:
        StaleReferenceError: If none runs, so that the session of the reference has ended.
    """
    if _current is None:
        from skate.exceptions import StaleReferenceError

        raise StaleReferenceError(ref.hex())
    return _current


def engine_of_actor() -> Engine:
    """Return the engine of this process, for a handle that exists: no session is begun.

    Raises:
        ActorHandleNotFoundError: If none runs, so that the session of the handle has ended.
    """
    if _current is None:
        from skate.exceptions import ActorHandleNotFoundError

        raise ActorHandleNotFoundError()
    return _current


def installed_engine() -> Engine | None:
    """Return the engine of this process, or None before `init`."""
    return _current


def end_with_program(engine: Engine) -> None:
    """Shut an engine down at the end of the program; from then on none begins by itself."""
    global _is_over
    engine.shutdown()
    if _current is engine:
        install_engine(None)
    _is_over = True


def install_engine(engine: Engine | None) -> None:
    """Make `engine` the one that the façade uses. Who asked for the end of another is not called:
    a forked child does this, too, and has nothing of what they would end."""
    global _current, tracer
    _current = engine
    if engine is None:
        tracer = None
    _at_end.clear()


def call_at_end(function: Callable[[], None]) -> None:
    """Call a function when the session is shut down, just before its engine is."""
    if function not in _at_end:
        _at_end.append(function)


@contextmanager
def leaving_session() -> Iterator[None]:
    """Call those who asked for the end, and install no engine while the former is shut down.

    What still runs meanwhile, as actors of the inline engine do in threads, begins no other one.
    """
    global _is_ending
    for function in list(_at_end):
        function()
    _is_ending = True
    install_engine(None)
    try:
        yield
    finally:
        _is_ending = False
