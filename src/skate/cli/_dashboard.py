"""`skate dashboard [PID|PATH]`: a page that shows a session, or folders of runs."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.cli._sessions import chosen
from skate.cli._tables import told

if TYPE_CHECKING:
    from skate.dashboard.folder_source import FolderSource
    from skate.dashboard.session_source import SessionSource

_HELP = """Show a page about a program that runs, or about trainings and searches in a folder.

WHAT is the process of a driver, or a folder; without it, the only session of this user. The page
is for this machine alone, at the address that is printed; Ctrl-C ends it.
"""


def dashboard_command(click: ModuleType) -> Any:
    """Return the command."""
    port = click.Option(
        ["--port"], type=click.IntRange(1, 65535), help="Where; a free one unless given."
    )
    return click.Command(
        "dashboard",
        help=_HELP,
        callback=told(click, _dashboard),
        params=[click.Argument(["what"], required=False), port],
    )


def _dashboard(what: str | None, port: int | None) -> None:
    for module in ("starlette", "uvicorn"):
        try_import(module, "serve")
    from skate.dashboard.launch import address_of, listening_socket, new_token
    from skate.dashboard.process import serve_here

    source, token = _source(what), new_token()
    with listening_socket(port) as listener:
        print(f"http://{address_of(listener, token)}", flush=True)
        print("Ctrl-C ends the page", file=sys.stderr)
        serve_here(source, token, listener)


def _source(what: str | None) -> SessionSource | FolderSource:
    from skate.dashboard.folder_source import FolderSource
    from skate.dashboard.session_source import SessionSource

    if what is not None and (not what.isdigit() or os.path.isdir(what)):
        return FolderSource(what)
    found = chosen(int(what) if what is not None else None)
    if len(found) > 1:
        there = ", ".join(str(one.pid) for one in found)
        raise ValueError(f"there are {len(found)} sessions: choose one ({there})")
    return SessionSource(found[0])
