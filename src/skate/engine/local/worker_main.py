"""The life of a worker process, from the fork to its exit code."""

from __future__ import annotations

import atexit
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from skate.engine import install_engine
from skate.engine.local import breakpoints, surroundings
from skate.engine.local.printing import Printer
from skate.engine.local.worker import WorkerEngine


def run_worker(number: int, settings: Mapping[str, Any], fds: Sequence[int]) -> int:
    """Run a worker until it is told to exit, and return its exit code."""
    surroundings.settle_in(settings, fds[1], fds[2])
    engine = WorkerEngine(number, settings, socket.socket(fileno=fds[0]))
    install_engine(engine)
    os.register_at_fork(after_in_child=engine.detach_in_child)
    sys.stdout, sys.stderr = engine.printers = (
        Printer(engine, 1, sys.stdout),
        Printer(engine, 2, sys.stderr),
    )
    breakpoints.install()
    engine.execution.termination.install()
    engine.execution.interrupts.look()
    if "setup_hook" in settings:
        engine.execution.set_up(settings["setup_hook"])
    try:
        return engine.execution.run()
    except SystemExit as exit:
        return _exit_code(exit)
    finally:
        engine.reactor.flush()
        engine.execution.actor.end()
        atexit._run_exitfuncs()
        for writer in list(engine.unfinished_lines):
            engine.finish_lines(writer)
        engine.reactor.flush()
        os.set_blocking(fds[0], True)
        engine.hub.finish()
        engine.execution.termination.finish()


def _exit_code(exit: SystemExit) -> int:
    if exit.code is None:
        return 0
    return exit.code if isinstance(exit.code, int) else 1
