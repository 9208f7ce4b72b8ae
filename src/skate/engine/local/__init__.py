"""The local engine: processes and shared memory on one machine, scheduled from the driver.

`engine.LocalEngine` is the driver's side, `worker.WorkerEngine` a worker's; `hub` is the scheduler
between them. ARCHITECTURE.md draws the paths. Nothing is imported at the top: fork servers and
workers want only their part.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine
    from skate.engine.local.hub.servers import ForkServer


def _early_server(session_dirs: list[str]) -> ForkServer | None:
    module = sys.modules.get("skate.engine.local.early_server")
    server: ForkServer | None = None if module is None else module.adopt(session_dirs)
    return server


def start(
    spill_dir: str | None = None, memory_guard: dict[str, Any] | None = None, **settings: Any
) -> LocalEngine:
    """Start the engine, or leave nothing behind. The fork server goes first, unless there is one
    already: it takes as long as all the rest."""
    from skate.engine.local.hub.servers import ForkServer
    from skate.engine.local.machine import memory_settings
    from skate.engine.local.open_files import fill_standard_streams
    from skate.engine.local.session import SessionFiles

    memory = memory_settings(memory_guard or {})  # refused before anything is there
    fill_standard_streams()
    with ExitStack() as undo:
        session = SessionFiles(spill_dir)
        undo.callback(session.remove)
        warm = _early_server(session.dirs)
        light = ForkServer(session.dirs, []) if warm is None else None
        for server in (warm, light):
            if server is not None:
                undo.callback(server.end_at_once)
        from skate.engine.local.engine import LocalEngine

        engine = LocalEngine(session, light, undo, warm=warm, memory_guard=memory, **settings)
        undo.pop_all()
    return engine
