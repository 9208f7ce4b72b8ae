"""`skate stack [PID]`: what the processes of a session do now, line by line."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import skate
from skate.cli._sessions import chosen
from skate.cli._tables import json_option, show_rows, told

if TYPE_CHECKING:
    from skate.engine.sessions import Session

Row = dict[str, Any]

_OURS = os.path.dirname(os.path.abspath(skate.__file__)) + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_START = "<string>"  # how a worker begins
_HELP = """Show what the processes of sessions do now, line by line.

PID is a driver, which stands for its whole session, or a worker. Without it, all sessions are
shown. Processes that are busy in C code, or stopped, are shown too.
"""


def stack_command(click: ModuleType) -> Any:
    """Return the command."""
    return click.Command(
        "stack",
        help=_HELP,
        callback=told(click, _stack),
        params=[
            click.Argument(["pid"], type=int, required=False),
            click.Option(
                ["--full"], is_flag=True, help="Also idle threads, and the frames of skate."
            ),
            json_option(click),
        ],
    )


def _stack(pid: int | None, full: bool, as_json: bool) -> None:
    found = chosen(None)
    rows = [row for session, pids in _wanted(found, pid) for row in session.stacks(pids)]
    if as_json:
        show_rows(rows, as_json)
        return
    for row in rows:
        print("\n".join(_described(row, full)))


def _wanted(found: list[Session], pid: int | None) -> Iterator[tuple[Session, list[int] | None]]:
    """Yield the sessions to look at, and which processes of them; None for all."""
    if pid is None:
        yield from ((session, None) for session in found)
        return
    for session in found:
        if session.pid == pid:
            yield session, None
            return
        if pid in session.processes():
            yield session, [pid]
            return
    there = ", ".join(str(session.pid) for session in found)
    raise ValueError(f"process {pid} belongs to no session of this user; there is {there}")


def _described(row: Row, full: bool) -> list[str]:
    who = f"{row['role']} {row['pid']}"
    lines = [f"{who}  {_doing(row)}"]
    reasons = row.get("because", ())
    for wait in row.get("waits_for", ()):
        if wait.get("name") or not reasons:  # the number of an object alone says nothing
            lines.append(f"  waits for {_awaited(wait)}")
    lines += [f"  because {reason}" for reason in reasons]
    for thread in row.get("threads", ()):
        lines += _stack_lines(thread["name"], thread["frames"], full)
    for coroutine in row.get("coroutines", ()):
        lines += _stack_lines(f"coroutine {coroutine['name']}", coroutine["frames"], full)
    return lines


def _doing(row: Row) -> str:
    if row["state"] in ("stopped", "stopped by a debugger"):
        where = f" in {row['kernel']}" if row.get("kernel") else ""
        return f"{row['title']}: {row['state']}{where}; `kill -CONT {row['pid']}` lets it go on"
    if row["state"] == "busy":
        return f"{row['title']}: busy in C code, which keeps the GIL"
    if row["state"] != "answers":
        where = f", in {row['kernel']} of the kernel" if row.get("kernel") else ""
        return f"{row['title']}: does not answer{where}"
    if row["runs"]:
        return ", ".join(f"{run['name']} for {run['seconds']:.1f} s" for run in row["runs"])
    return str(row["title"])


def _awaited(wait: Row) -> str:
    if not wait.get("name"):
        return f"object {wait['object_id']}"
    place = f" in pid {wait['pid']}" if wait.get("pid") else ""
    return f"{wait['name']} ({wait['state']}{place}), object {wait['object_id']}"


def _stack_lines(name: str, frames: list[Row], full: bool) -> list[str]:
    """Return a stack as people read it: their own frames, with what these have called."""
    shown = frames if full else _users(frames)
    lines = [f"  {name}"] if shown else []
    for frame in shown:
        lines.append(f"    {frame['file']}:{frame['line']} in {frame['function']}")
        text = linecache.getline(frame["file"], frame["line"]).strip()
        if text:
            lines.append(f"        {text}")
    return lines


def _users(frames: list[Row]) -> list[Row]:
    """Return the frames of the program, from its first to its last one, and what that has called
    outside of skate; none of a thread that is skate's or the interpreter's alone."""
    own = [place for place, frame in enumerate(frames) if not _is_inside(frame)]
    if not own:
        return []
    end = own[-1] + 1
    while end < len(frames) and not _is_ours(frames[end]):
        end += 1
    return [frame for frame in frames[own[0] : end] if not _is_ours(frame)]


def _is_inside(frame: Row) -> bool:
    """Return whether it is a frame of skate or of the standard library."""
    library = frame["file"].startswith(_LIBRARY) and "site-packages" not in frame["file"]
    return _is_ours(frame) or library or frame["file"].startswith("<frozen")


def _is_ours(frame: Row) -> bool:
    file: str = frame["file"]
    return file.startswith(_OURS) or file == _START
