"""Where in the user's code a thread is, such as "train.py:31, in step"."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple(_PATHS[name] + os.sep for name in ("stdlib", "platstdlib", "purelib"))
_OTHERS = (PACKAGE, "<frozen", *_LIBRARIES)


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, and those around it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def own_frame(frames: Sequence[FrameType]) -> FrameType | None:
    """Return the innermost frame that is neither ours nor a library's."""
    return next((f for f in frames if not f.f_code.co_filename.startswith(_OTHERS)), None)


def file_of(frame: FrameType) -> str:
    """Return the file of a frame, relative to the working directory if it is in there."""
    file, here = frame.f_code.co_filename, os.getcwd() + os.sep
    return file.removeprefix(here)


def place_of(frame: FrameType | None) -> str:
    """Return file, line and function of a frame; "" of none."""
    if frame is None:
        return ""
    return f"{file_of(frame)}:{frame.f_lineno}, in {frame.f_code.co_name}"


def place_of_thread(thread: threading.Thread | None) -> str:
    """Return the innermost place of the user's where a thread is; "" if it is nowhere there."""
    ident = thread.ident if thread is not None else None
    frame = sys._current_frames().get(ident) if ident is not None else None
    return place_of(own_frame([*outwards(frame)]))
