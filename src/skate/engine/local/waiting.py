"""What runs in a worker and what it waits for, told when somebody wonders (`AskWaits`).

Nothing is noted for this while work runs. It is found when it is asked for: in the frames of the
threads, where the engine's own have a local `work`, and in the table of objects. A class of the
libraries whose methods wait for others may have a method `waits_because(method)` that says for
whom: it is called when a frame of such a method is found.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from skate.engine.local import messages as m
from skate.engine.local.messages import Work

if TYPE_CHECKING:
    from skate.engine.local.worker import WorkerEngine

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple(_PATHS[name] + os.sep for name in ("stdlib", "platstdlib", "purelib"))
_MOST = 100  # of each kind: nobody reads more


def told(engine: WorkerEngine) -> m.TellWaits:
    """Return what runs here and what it waits for. The engine's lock is held."""
    execution = engine.execution
    found = [*_in_threads(), *_in_event_loop()]
    name_of = execution.preparation.name_of
    running = [
        (work.id, name_of(work), where(frames), reason(frames)) for work, frames, _ in found
    ]
    # Several calls at a time: which one waits is known of those that do it in a thread.
    waiting_of = {id(running.waiter): key for key, running in execution.calls_waiting.items()}
    only = running[0][0] if len(running) == 1 else 0
    waits = [
        (waiting_of.get(id(needs), only), _pending(needs.wanted)) for needs in engine.blocked()
    ]
    awaited = [entry for entry in engine.entries.values() if entry.kind is None and entry.waiters]
    for work, _, suspended in found:
        if suspended and awaited and not waits:
            waits.append((work.id, _pending(awaited)))
    return m.TellWaits(running[:_MOST], waits[:_MOST], engine.peers.unanswered()[:_MOST])


def _pending(entries: Any) -> list[int]:
    return [entry.id for entry in entries if entry.kind is None][:_MOST]


def _in_threads() -> Iterator[tuple[Work, list[FrameType], bool]]:
    """Work that a thread is busy with, and where."""
    for frame in sys._current_frames().values():
        frames = [*outwards(frame)]
        work = next(filter(None, map(_work_of, frames)), None)
        if work is not None:
            yield work, frames, False


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, and those around it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _work_of(frame: FrameType) -> Work | None:
    if not frame.f_code.co_filename.startswith(_PACKAGE) or "function" not in frame.f_locals:
        return None  # `function`: its arguments are there, and it has begun
    work = frame.f_locals.get("work")
    return work if isinstance(work, Work) else None


def _in_event_loop() -> Iterator[tuple[Work, list[FrameType], bool]]:
    """Calls of an async actor that have begun and are suspended."""
    asyncio = sys.modules.get("asyncio")
    kind = getattr(asyncio, "AbstractEventLoop", None)
    if asyncio is None or kind is None:  # another thread may be importing it right now
        return
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    owners = (outer.f_locals.get("self") for outer in outwards(frame))
    loop = next((one for one in owners if isinstance(one, kind)), None)
    if loop is None:
        return
    for task in asyncio.all_tasks(loop):
        frames = [*inwards(task.get_coro())][::-1]
        work = next(filter(None, map(_work_of, frames)), None)
        if work is not None:
            yield work, frames, True


def inwards(coroutine: object) -> Iterator[FrameType]:
    """Yield the frames of a coroutine that is suspended, the innermost last."""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None:
            yield frame
        coroutine = getattr(coroutine, "cr_await", None)


def where(frames: list[FrameType]) -> str:
    """Return the place of the innermost frame of the user's, such as "train.py:31, in step";
    that of a library where there is none, "" if all are ours."""
    foreign = (f for f in frames if not f.f_code.co_filename.startswith((_PACKAGE, "<frozen")))
    frame = own_frame(frames) or next(foreign, None)
    if frame is None:
        return ""
    return f"{file_of(frame)}:{frame.f_lineno}, in {frame.f_code.co_name}"


def reason(frames: list[FrameType]) -> str:
    """Return why a method of the libraries waits, as its object says; "" if none does."""
    for frame in frames:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            because = getattr(type(frame.f_locals.get("self")), "waits_because", None)
            text = because(frame.f_locals["self"], frame.f_code.co_name) if because else None
            if text:
                return str(text)
    return ""


def own_frame(frames: list[FrameType]) -> FrameType | None:
    """Return the innermost frame that is neither ours nor a library's."""
    others = (_PACKAGE, "<frozen", *_LIBRARIES)
    return next((f for f in frames if not f.f_code.co_filename.startswith(others)), None)


def file_of(frame: FrameType) -> str:
    """Return the file of a frame, relative to the working directory if it is in there."""
    file, here = frame.f_code.co_filename, os.getcwd() + os.sep
    return file.removeprefix(here)
