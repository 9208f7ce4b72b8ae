"""Bars of progress of many processes, drawn by the driver: one screen has one that draws.

A worker sends the state of its bar as a line of JSON that begins with `MAGIC`, by its standard
output; whoever shows that output recognises the line. Ray does the same, so that bars work on its
clusters as well.
"""

from __future__ import annotations

import builtins
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAGIC = "__ray_tqdm_magic_token__"
_FIELDS = {"x", "pos", "desc", "total", "unit", "ip", "pid", "uuid", "closed"}
_PATCH = "RAY_TQDM_PATCH_PRINT"

State = dict[str, Any]

_manager: BarManager | None = None
_making = threading.Lock()
_print: Any = builtins.print  # what `safe_print` stands in for: the user's own, maybe


def instance() -> BarManager:
    """Return the manager of the bars that this process draws."""
    global _manager
    with _making:
        if _manager is None:
            _manager = BarManager()
        return _manager


def show_states(text: str) -> str:
    """Draw the bars whose states are among the lines of `text`; return the other lines."""
    others = []
    for line in text.splitlines(True):
        state = _state_in(line)
        if state is not None:
            instance().process_state_update(state)
        else:
            others.append(line)
    return "".join(others)


def without_states(text: str) -> str:
    """Return the lines of `text` that are no states of bars."""
    return "".join(line for line in text.splitlines(True) if _state_in(line) is None)


def _state_in(line: str) -> State | None:
    try:
        state = json.loads(line) if MAGIC in line else None
    except (ValueError, RecursionError):  # someone prints something similar
        return None
    return state if isinstance(state, dict) and state.keys() >= _FIELDS else None


@contextmanager
def bars_hidden() -> Iterator[None]:
    """Take the bars out of the way, while something else is printed."""
    if _manager is None or not _manager.bar_groups:
        yield
        return
    _manager.hide_bars()
    try:
        yield
    finally:
        _manager.unhide_bars()


def safe_print(*values: object, **options: object) -> None:
    """Print above the bars. While there are bars, it stands in for `print` itself, unless the
    environment says RAY_TQDM_PATCH_PRINT=0."""
    import sys

    if options.get("file") in (sys.stdout, sys.stderr, None):
        with bars_hidden():
            _print(*values, **options)
    else:
        _print(*values, **options)


class Bar:
    """A bar on the screen, by tqdm."""

    def __init__(self, state: State, offset: int) -> None:
        from tqdm.auto import tqdm

        class Unwatched(tqdm):  # type: ignore[misc]
            monitor_interval = 0  # without a thread that looks after it

        self.state = state
        self.bar = Unwatched(
            desc=state["desc"], total=state["total"], unit=state["unit"],
            position=offset + state["pos"], dynamic_ncols=True, unit_scale=True,
        )  # fmt: skip
        self.bar.update(state["x"])

    def update(self, state: State) -> None:
        """Draw the bar as `state` has it."""
        self.bar.total = state["total"]
        self.bar.set_description_str(state["desc"], refresh=False)
        self.bar.update(state["x"] - self.state["x"])
        self.bar.refresh()
        self.state = state

    def move(self, offset: int) -> None:
        """Draw it in another line."""
        place = -(offset + self.state["pos"])
        if self.bar.pos != place:
            self.bar.clear()
            self.bar.pos = place
            self.bar.refresh()


class BarGroup:
    """The bars of one process: lines beside each other."""

    def __init__(self) -> None:
        self.bars_by_uuid: dict[str, Bar] = {}

    def slots_required(self) -> int:
        """Return how many lines its bars need."""
        return max((bar.state["pos"] + 1 for bar in self.bars_by_uuid.values()), default=0)


class BarManager:
    """All bars that this process draws, by the process that they are of."""

    def __init__(self) -> None:
        self.bar_groups: dict[tuple[str, int], BarGroup] = {}
        self.in_hidden_state: bool = False
        self.num_hides: int = 0
        self.lock: threading.RLock = threading.RLock()
        self._can_draw = True
        self._stands_in = False  # `safe_print` for `print`
        # What the user has put in its place: it may call it, and so must not be called by it.
        self._left_alone: Any = None

    def process_state_update(self, state: State) -> None:
        """Draw a bar as `state` has it: a new one, a changed one, or one for the last time."""
        with self.lock:
            if not self._can_draw:
                return
            try:
                self._update({**state, "desc": _who(state) + state["desc"]})
            except ImportError:
                self._can_draw = False
                import logging

                logging.getLogger("skate").warning(
                    "bars of progress are shown by tqdm: install it"
                )

    def _update(self, state: State) -> None:
        process = state["ip"], state["pid"]
        group = self.bar_groups.get(process) or BarGroup()
        self.unhide_bars()
        known = group.bars_by_uuid.get(state["uuid"])
        if known is None:
            others = [one for one in self.bar_groups.values() if one is not group]
            offset = sum(one.slots_required() for one in others)
            known = group.bars_by_uuid[state["uuid"]] = Bar(state, offset)
            self.bar_groups[process] = group  # with its bar: others look at it without the lock
        else:
            known.update(state)
        if state["closed"]:
            known.bar.close()
            del group.bars_by_uuid[state["uuid"]]
            if not group.bars_by_uuid:
                del self.bar_groups[process]
        self._arrange()

    def _arrange(self) -> None:
        offset = 0
        for group in self.bar_groups.values():
            for bar in group.bars_by_uuid.values():
                bar.move(offset)
            offset += group.slots_required()
        if os.environ.get(_PATCH, "1") != "0":
            self._replace_print(bool(self.bar_groups))

    def _replace_print(self, with_bars: bool) -> None:
        """Have `safe_print` stand in for whatever `print` is, for as long as there are bars."""
        global _print
        now = builtins.print
        if with_bars and not self._stands_in and now is not self._left_alone:
            self._stands_in = True
            if now is not safe_print:
                _print, builtins.print = now, safe_print
        elif not with_bars and self._stands_in:
            self._stands_in = False
            if now is safe_print:
                builtins.print = _print
            else:
                self._left_alone = now

    def hide_bars(self) -> None:
        """Take all bars off the screen for a moment."""
        with self.lock:
            if not self.in_hidden_state:
                self.in_hidden_state = True
                self.num_hides += 1
                for bar in self._bars():
                    bar.bar.clear()

    def unhide_bars(self) -> None:
        """Draw all bars again."""
        with self.lock:
            if self.in_hidden_state:
                self.in_hidden_state = False
                for bar in self._bars():
                    bar.bar.refresh()

    def close(self) -> None:
        """Leave the bars of other processes, which are gone, as they are, and draw no more."""
        with self.lock:
            for bar in self._bars():
                if bar.state["pid"] != os.getpid():
                    bar.bar.close()
            own = {key: group for key, group in self.bar_groups.items() if key[1] == os.getpid()}
            self.bar_groups.clear()
            self.bar_groups.update(own)
            self._arrange()

    def _bars(self) -> list[Bar]:
        return [bar for group in self.bar_groups.values() for bar in group.bars_by_uuid.values()]


def close_bars() -> None:
    """Leave bars of workers, which are gone, as they are."""
    if _manager is not None:
        _manager.close()


def _who(state: State) -> str:
    if state["pid"] == os.getpid():
        return ""
    return f"(pid={state['pid']}) "
