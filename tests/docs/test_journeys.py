"""ARCHITECTURE.md draws the files that a call runs through, and no others."""

from __future__ import annotations

import builtins
import re
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import skate
from tests.docs.pages import ROOT

PACKAGE = Path(skate.__file__).parent
CALLS = 31


def drawn_files() -> set[str]:
    """Return the files in the drawing; those without a folder are the local engine's, or drawn
    with their folder elsewhere."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    drawing = text[text.index("## One `f.remote()` and its `get`") :].split("```")[1]
    names = set(re.findall(r"\b\w[\w/]*\.py\b", drawing))
    elsewhere = {name for name in names if (PACKAGE / name).is_file()}
    known = {Path(name).name for name in elsewhere}
    return elsewhere | {f"engine/local/{name}" for name in names - elsewhere - known}


class Trace:
    """Counts the calls of `work` in which the thread called a function of a file of skate."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._calls: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(f"{PACKAGE}/"):
            self._files.add(file[len(f"{PACKAGE}/") :])

    def end_call(self) -> None:
        """Count what was seen since the last call."""
        self._calls.update(self._files)
        self._files.clear()

    def usual(self) -> list[str]:
        """Return the files of most calls: what timers do now and then is none of theirs, and
        another thread may have read the answer to one."""
        return [file for file, calls in self._calls.items() if calls > CALLS / 2]


def work(order: str) -> Any:
    """Count, in the worker, what it has done since the last call."""
    if order == "begin":
        builtins.trace_of_calls = trace = Trace()
        sys.setprofile(trace)
    elif order == "next":
        builtins.trace_of_calls.end_call()
    elif order == "end":
        sys.setprofile(None)
        return builtins.trace_of_calls.usual()
    return None


def test_a_call_runs_through_the_files_that_are_drawn() -> None:
    remote = skate.remote(work)
    trace = Trace()
    with skate.init(num_cpus=1):
        skate.get(remote.remote("begin"))
        sys.setprofile(trace)
        try:
            for _ in range(CALLS):
                skate.get(remote.remote("next"))
                trace.end_call()
        finally:
            sys.setprofile(None)
        in_worker = skate.get(remote.remote("end"))
    assert {*trace.usual(), *in_worker} == drawn_files()
