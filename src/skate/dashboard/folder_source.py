"""What the page shows of folders: trainings and searches, under way or over."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from skate.dashboard.run_folders import RunFolder, find_runs

Row = dict[str, Any]


class RunShelf:
    """Runs by their numbers: a browser names a number, never a path."""

    def __init__(self) -> None:
        self._runs: dict[str, RunFolder] = {}
        self._states: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, run: RunFolder, state: str = "") -> None:
        """Add a run, or note the state of one that is there."""
        with self._lock:
            self._runs.setdefault(run.path, run)
            if state:
                self._states[run.path] = state

    def end_all(self, but: set[str]) -> None:
        """Note that those are over that nobody announces any more."""
        with self._lock:
            for path in self._states.keys() - but:
                if self._states[path] == "RUNNING":
                    self._states[path] = "ENDED"

    def rows(self) -> list[Row]:
        """Return what there is to choose from."""
        with self._lock:
            return [
                {
                    "number": number,
                    "name": run.name,
                    "kind": run.kind,
                    "path": run.path,
                    "state": self._states.get(run.path, ""),
                }
                for number, run in enumerate(self._runs.values())
            ]

    def told(self, number: int, metric: str | None, version: int) -> Row:
        """Return a run; if it is as in that version, only that.

        Raises:
            LookupError: If there is no run of that number.
        """
        with self._lock:
            runs = [*self._runs.values()]
            if not 0 <= number < len(runs):
                raise LookupError(f"there are {len(runs)} runs; got the number {number}")
            run = runs[number]
            run.read()
            if run.version == version:
                return {"version": version, "unchanged": True}
            return {**run.told(metric), "state": self._states.get(run.path, "")}


class FolderSource:
    """Answers the page from a folder.

    Args:
        path: Of a run, or of several.
    """

    is_over = False

    def __init__(self, path: str) -> None:
        self.runs: RunShelf = RunShelf()
        self._path = path
        for run in find_runs(path):
            self.runs.add(run)

    def news(self, seen: Mapping[str, int]) -> Row:
        """Return what the page is about."""
        return {"kind": "folder", "title": self._path}

    def libraries(self) -> Row:
        """Return the runs that there are."""
        return {"runs": self.runs.rows()}

    def waits(self) -> Row:
        """Return nothing: no process waits in a folder."""
        return {}

    def objects(self) -> list[Row]:
        """Return nothing: no object is alive in a folder."""
        return []
