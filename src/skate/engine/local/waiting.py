"""What runs in a worker and what it waits for, told when somebody wonders (`AskWaits`).

Nothing is noted for this while work runs. It is found when it is asked for: in the frames of the
threads, where the engine's own have a local `work`, and in the table of objects. A class of the
libraries whose methods wait for others may have a method `waits_because(method)` that says for
whom: it is called when a frame of such a method is found.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from skate._core.places import PACKAGE, outwards, own_frame, place_of
from skate.engine.local import messages as m
from skate.engine.local.messages import Work

if TYPE_CHECKING:
    from skate.engine.local.worker import WorkerEngine

_ENGINE = os.path.dirname(os.path.abspath(__file__)) + os.sep
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
    """Yield the work that threads are busy with, and where."""
    for frame in sys._current_frames().values():
        frames = [*outwards(frame)]
        work = next(filter(None, map(_work_of, frames)), None)
        if work is not None:
            yield work, frames, False


def _work_of(frame: FrameType) -> Work | None:
    if not frame.f_code.co_filename.startswith(PACKAGE) or "function" not in frame.f_locals:
        return None  # `function`: its arguments are there, and it has begun
    work = frame.f_locals.get("work")
    return work if isinstance(work, Work) else None


def _in_event_loop() -> Iterator[tuple[Work, list[FrameType], bool]]:
    """Yield calls of an async actor that have begun and are suspended."""
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
    """Return the place of the innermost frame of the user's, such as "train.py:31, in step"; if
    the work is a library's function, the place in there; "" if it is ours."""
    inside = list(itertools.takewhile(lambda frame: _work_of(frame) is None, frames))
    own = own_frame(inside)
    if own is not None or any(map(_is_of_our_libraries, inside)):
        return place_of(own)
    foreign = (f for f in inside if not f.f_code.co_filename.startswith((PACKAGE, "<frozen")))
    return place_of(next(foreign, None))


def _is_of_our_libraries(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(PACKAGE) and not file.startswith(_ENGINE)


def reason(frames: list[FrameType]) -> str:
    """Return why a method of the libraries waits, as its object says; "" if none does."""
    for frame in frames:
        if frame.f_code.co_filename.startswith(PACKAGE):
            because = getattr(type(frame.f_locals.get("self")), "waits_because", None)
            text = because(frame.f_locals["self"], frame.f_code.co_name) if because else None
            if text:
                return str(text)
    return ""
