"""The Python stacks of this process, as it sees them itself: threads, and coroutines that wait."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_MOST_FRAMES = 200
_MOST_COROUTINES = 200
_LOOP = "run_forever"  # the method of an event loop that is on the stack of its thread

Row = dict[str, Any]


def own_stacks() -> dict[str, list[Row]]:
    """Return threads and coroutines of this process, each with its frames, the innermost last."""
    frames = sys._current_frames()
    named = {thread.ident: thread for thread in threading.enumerate()}
    main = threading.main_thread().ident
    here = threading.get_ident()
    idents = sorted((ident for ident in frames if ident != here), key=lambda one: one != main)
    threads = [
        {
            "name": named[ident].name if ident in named else f"thread {ident}",
            "is_main": ident == main,
            "frames": [_row_of(frame) for frame in _frames_of(frames[ident])],
        }
        for ident in idents
    ]
    return {"threads": threads, "coroutines": _coroutines([frames[one] for one in idents])}


def _frames_of(frame: FrameType | None) -> list[FrameType]:
    found: list[FrameType] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        found.append(frame)
        frame = frame.f_back
    return found[::-1]


def _row_of(frame: FrameType) -> Row:
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)  # qualified since Python 3.11
    return {"function": name, "file": code.co_filename, "line": frame.f_lineno}


def _coroutines(innermost: list[FrameType]) -> list[Row]:
    """Return the tasks of all event loops of this process that wait for something."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return []
    loops = [
        frame.f_locals.get("self")
        for inner in innermost
        for frame in _frames_of(inner)
        if frame.f_code.co_name == _LOOP
    ]
    tasks = [task for loop in loops if loop is not None for task in asyncio.all_tasks(loop)]
    rows = [
        {"name": task.get_name(), "frames": [_row_of(frame) for frame in _awaited(task)]}
        for task in tasks[:_MOST_COROUTINES]
    ]
    return [row for row in rows if row["frames"]]


def _awaited(task: Any) -> Iterator[FrameType]:
    """Yield the frames of a task that waits, and of what it waits for; none if it runs now."""
    coroutine = task.get_coro()
    if getattr(coroutine, "cr_running", False):
        return
    for _ in range(_MOST_FRAMES):
        for kind in ("cr", "gi", "ag"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None:
                yield frame
                further = "gi_yieldfrom" if kind == "gi" else f"{kind}_await"
                coroutine = getattr(coroutine, further, None)
                break
        else:
            return
