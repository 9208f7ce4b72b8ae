"""What the page shows of a session: asked while somebody looks, kept when it is over."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from skate.dashboard.folder_source import RunShelf
from skate.dashboard.numbered import Numbered
from skate.dashboard.run_folders import RunFolder
from skate.dashboard.traffic import DeploymentTraffic
from skate.engine.sessions import NoAnswerError, Session, memory_of, state_of

Row = dict[str, Any]

_EVERY_SECONDS = 0.9
_ANSWER_SHARE = 20  # how many times longer than an answer took is waited before the next question
_LIBRARIES_SECONDS = 1.8
_MOST_TASKS = 20_000
_MOST_FAILURES = 1_000
_MOST_PIECES = 5_000  # of output
_MOST_SAMPLES = 900  # of memory: a quarter of an hour
_MOST_OBJECTS = 200
_MOST_DATASETS = 50
_INCREMENTS = ("tasks", "failures", "ended_actors", "logs")


class SessionSource:
    """Answers the page from a session.

    Args:
        session: Which.
    """

    def __init__(self, session: Session) -> None:
        self.runs: RunShelf = RunShelf()
        self.is_over: bool = False
        self._session = session
        self._lock = threading.RLock()
        self._asked = float("-inf")
        self._pause = _EVERY_SECONDS
        self._facts: Row = {}
        self._answers = True
        self._seen = {"ended": 0, "failed": 0, "gone": 0, "printed": 0}
        self._history = {
            "tasks": Numbered(_MOST_TASKS),
            "failures": Numbered(_MOST_FAILURES),
            "ended_actors": Numbered(_MOST_FAILURES),
            "logs": Numbered(_MOST_PIECES),
            "memory": Numbered(_MOST_SAMPLES),
        }
        self._running: dict[str, float] = {}  # tasks, and when they were first seen
        self._libraries_asked = float("-inf")
        self._datasets: dict[str, list[Row]] = {}
        self._traffic = DeploymentTraffic()
        self._deployments: list[Row] = []
        self._waits: Row = {}
        self._objects: list[Row] = []

    # -- what there is now, and what has happened -----------------------------------------------

    def news(self, seen: Mapping[str, int]) -> Row:
        """Return what there is now, and what has happened since `seen`, by kind."""
        with self._lock:
            if time.monotonic() - self._asked >= self._pause:
                self._ask()
            history = {name: kept.since(seen.get(name, 0)) for name, kept in self._history.items()}
            return {
                "kind": "session",
                "pid": self._session.pid,
                "over": self.is_over,
                "answers": self._answers,
                "facts": self._facts,
                **history,
            }

    def _ask(self) -> None:
        began = time.monotonic()
        found = self._told(lambda: self._session.news(**self._seen))
        self._asked = time.monotonic()
        self._pause = _EVERY_SECONDS
        if found is not None:
            self._pause = max(self._pause, _ANSWER_SHARE * (self._asked - began))
            self._take(found)

    def _told(self, ask: Callable[[], object]) -> Any:
        """Return an answer; None if there is none, because it is over, or does not answer."""
        if self.is_over:
            return None
        try:
            answer = ask()
        except (NoAnswerError, ValueError):
            self._answers = False
            self.is_over = self._session.is_over
            return None
        self._answers = True
        return answer

    def _take(self, found: Row) -> None:
        printed = found["logs"][-1]["number"] if found["logs"] else self._seen["printed"]
        self._seen = {name: found[name] for name in ("ended", "failed", "gone")}
        self._seen["printed"] = printed
        for name in _INCREMENTS:
            self._history[name].extend(found.pop(name))
        now: float = found["time"]
        self._running = {
            task["id"]: self._running.get(task["id"], now) for task in found["running"]
        }
        for task in found["running"]:
            task["since"] = self._running[task["id"]]
        self._history["memory"].extend([self._memory_sample(found)])
        self._facts = found

    def _memory_sample(self, found: Row) -> Row:
        pids = [self._session.pid, *(worker["pid"] for worker in found["workers"])]
        return {
            "time": found["time"],
            "store": found["store_bytes"],
            "spilled": _bytes_in(found["spill_folder"]),
            # Processes that are about to start have no number yet.
            "processes": [[pid, *memory_of(pid)] for pid in pids if pid],
        }

    # -- on demand ------------------------------------------------------------------------------

    def waits(self) -> Row:
        """Return who waits for whom."""
        with self._lock:
            found = self._told(lambda: self._session.ask("wait_graph"))
            if found is not None:
                self._waits = found
            stopped = state_of(self._session.pid) in ("T", "t")
            return {**self._waits, "driver": self._session.pid, "driver_is_stopped": stopped}

    def objects(self) -> list[Row]:
        """Return the largest objects, and who holds them."""
        with self._lock:
            found = self._told(self._session.memory)
            if found is not None:
                self._objects = found[:_MOST_OBJECTS]
            return self._objects

    def libraries(self) -> Row:
        """Return what libraries have under way: datasets, runs, deployments."""
        with self._lock:
            if time.monotonic() - self._libraries_asked >= _LIBRARIES_SECONDS:
                found = self._told(self._session.under_way)
                self._libraries_asked = time.monotonic()
                if found is not None:
                    self._take_libraries(found)
            return {
                "datasets": [*self._datasets.values()],
                "runs": self.runs.rows(),
                "deployments": self._deployments,
            }

    def _take_libraries(self, found: dict[str, list[Row]]) -> None:
        datasets: dict[str, list[Row]] = {}
        for row in found.get("datasets", ()):
            datasets.setdefault(row["dataset"], []).append(row)
        for id in self._datasets.keys() - datasets.keys():
            for row in self._datasets[id]:
                if row["state"] == "RUNNING":
                    row["state"] = "ENDED"
        self._datasets.update(datasets)
        while len(self._datasets) > _MOST_DATASETS:
            del self._datasets[next(iter(self._datasets))]
        paths = {row["path"]: row["state"] for row in found.get("runs", ()) if row["path"]}
        for path, state in paths.items():
            self.runs.add(RunFolder(path), state)
        self.runs.end_all(set(paths))
        if "deployments" in found:
            self._deployments = self._traffic.rows(found["deployments"], found.get("replicas", []))

    def last_look(self) -> None:
        """Ask for everything once more, and never again: the session is about to end."""
        with self._lock:
            self._asked = self._libraries_asked = float("-inf")
            self.news({})
            self.libraries()
            self.objects()
            self.is_over = True


def _bytes_in(folder: str) -> int:
    total = 0
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            with suppress(OSError):
                total += one.stat(follow_symlinks=False).st_size
    return total
