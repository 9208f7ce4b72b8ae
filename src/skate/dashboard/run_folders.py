"""Folders of trainings and searches, read while they are written and later.

All of it is data, lines of JSON and text: nothing is unpickled, and what is damaged or odd is
passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from skate._core.plain_files import open_plain
from skate._run.reporting import AUTOMATIC
from skate._run.values import flatten

Row = dict[str, Any]

RESULTS = "result.json"
STATES = "experiment_state.jsonl"
_STATES_OF_RAY = "experiment_state-"  # how the names of such files begin
_PARAMETERS = "params.json"
_ERRORS = ("error.json", "error.txt")
_MOST_TRIALS = 2_000
_MOST_POINTS = 1_000  # of a trial; of more, every second one goes
_MOST_SENT_POINTS = 250
_MOST_CURVES = 200
_MOST_FOLDERS = 200
_DEEPEST = 3  # below the folder that was asked for
_MOST_BYTES = 1 << 26  # read at a time
_MOST_ERROR_BYTES = 1 << 16


def _opened(path: str) -> int | None:
    """Open a plain file: no link, no pipe."""
    try:
        return open_plain(path, follow_links=False)
    except (OSError, ValueError):  # the latter: a name, out of a file, that none can have
        return None


def _text_of(path: str) -> str:
    """Return the end of a small file; "" if there is none."""
    file = _opened(path)
    if file is None:
        return ""
    try:
        begin = max(0, os.fstat(file).st_size - _MOST_ERROR_BYTES)
        return os.pread(file, _MOST_ERROR_BYTES, begin).decode(errors="replace")
    finally:
        os.close(file)


class Lines:
    """The lines of JSON of a file that grows.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._place = 0
        self._identity: tuple[int, int] | None = None

    def new(self) -> tuple[bool, list[Row]]:
        """Return whether the file has begun anew, and the complete lines since the last time."""
        file = _opened(self._path)
        if file is None:
            return False, []
        try:
            found = os.fstat(file)
            identity = (found.st_dev, found.st_ino)
            anew = identity != self._identity or found.st_size < self._place
            if anew:
                self._place = 0
            self._identity = identity
            data = os.pread(file, _MOST_BYTES, self._place)
        finally:
            os.close(file)
        whole = data[: data.rfind(b"\n") + 1]
        self._place += len(whole)
        return anew, [row for line in whole.splitlines() if (row := _row_in(line)) is not None]


def _row_in(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


class TrialFolder:
    """One trial of a search, or a training.

    Args:
        name: What people know it by.
        folder: Its folder.
        config: Its configuration; None if that is in its folder.
    """

    def __init__(self, name: str, folder: str, config: Row | None) -> None:
        self.name: str = name
        self.folder = folder
        self.config: Row = config or {}
        self._lacks_config = config is None
        self.state = ""  # as the search has noted it; "": not at all
        self.last: Row = {}
        self._results = Lines(os.path.join(folder, RESULTS))
        self._points: list[Row] = []
        self._stride = 1
        self._seen = 0

    def read(self) -> bool:
        """Take in what is new; return whether there was something."""
        found_config = self._lacks_config and self._read_config()
        anew, rows = self._results.new()
        if anew:
            self._points, self._stride, self._seen, self.last = [], 1, 0, {}
        for row in rows:
            self._add(row)
        return bool(rows) or anew or found_config

    def _read_config(self) -> bool:
        """Read the configuration; return whether it is there, and not only its beginning."""
        found = _row_in(_text_of(os.path.join(self.folder, _PARAMETERS)).encode())
        if found is not None:
            self.config, self._lacks_config = found, False
        return found is not None

    def _add(self, row: Row) -> None:
        self._seen += 1
        if not self.config and isinstance(row.get("config"), dict):
            self.config = row["config"]
        self.last = {
            name: value
            for name, value in flatten({k: v for k, v in row.items() if k not in AUTOMATIC})
            if isinstance(value, (int, float, str, bool))
        }
        self.last["training_iteration"] = row.get("training_iteration", self._seen)
        if self._seen % self._stride == 0:
            self._points.append(self.last)
        if len(self._points) > _MOST_POINTS:
            self._points, self._stride = self._points[1::2], self._stride * 2

    @property
    def error(self) -> str:
        """What it has raised; "" if nothing."""
        for name in _ERRORS:
            text = _text_of(os.path.join(self.folder, name))
            described = _row_in(text.encode()) if name.endswith("json") else None
            if described is not None:
                return str(described.get("traceback") or described.get("message") or "")
            if text:
                return text
        return ""

    def curve(self, metric: str) -> list[list[Any]]:
        """Return iterations and values."""
        kept = self._points
        if not kept or kept[-1] is not self.last:
            kept = [*kept, self.last]
        found = [
            [point["training_iteration"], point[metric]]
            for point in kept
            if _is_number(point.get(metric)) and _is_number(point.get("training_iteration"))
        ]
        step = max(1, len(found) // _MOST_SENT_POINTS)
        return found[::step] + (found[-1:] if (len(found) - 1) % step else [])

    def row(self) -> Row:
        """Return what tables show."""
        error = self.error
        state = self.state or ("ERROR" if error else "")
        return {
            "trial": self.name,
            "state": state,
            "metrics": self.last,
            "config": dict(flatten(self.config)),
            "error": error,
        }


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class RunFolder:
    """A training or a search.

    Args:
        path: Its folder.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name: str = os.path.basename(os.path.normpath(path))
        self.kind = "search" if _is_search(path) else "training"
        self.version: int = 0  # grows when there is something new
        self.metric: str | None = None  # by which a search compares
        self.mode: str | None = None
        self._states = Lines(os.path.join(path, STATES))
        self._trials: dict[str, TrialFolder] = {}

    def read(self) -> None:
        """Take in what is new."""
        if self.kind == "training" and _is_search(self.path):
            self.kind, self._trials = "search", {}
        changed = self._find_trials()
        for trial in [*self._trials.values()]:
            changed |= trial.read()
        self.version += changed

    def _find_trials(self) -> bool:
        if self.kind == "training":
            if not self._trials:
                self._trials = {self.name: TrialFolder(self.name, self.path, None)}
            return False
        anew, lines = self._states.new()
        if anew:
            self._trials = {}
        for line in lines:
            self._apply(line)
        if not os.path.exists(os.path.join(self.path, STATES)):
            return self._find_trials_of_ray()
        return bool(lines)

    def _apply(self, line: Row) -> None:
        kind, id = line.get("kind"), line.get("trial_id")
        if kind == "run":
            if line.get("fresh"):
                self._trials = {}
            self.metric, self.mode = line.get("metric"), line.get("mode")
        elif not isinstance(id, str):
            return
        elif kind == "trial" and len(self._trials) < _MOST_TRIALS:
            folder = os.path.basename(str(line.get("dirname")))
            place = os.path.join(self.path, folder)
            self._trials[id] = TrialFolder(id, place, _seen(line.get("config")))
            self._trials[id].state = "PENDING"
        elif id in self._trials and kind == "config":
            self._trials[id].config = _seen(line.get("config"))
        elif id in self._trials and kind == "progress":
            self._trials[id].state = str(line.get("status"))

    def _find_trials_of_ray(self) -> bool:
        """Find the trials of a search that Ray has written: each has a folder."""
        found = False
        for name in sorted(_folders_in(self.path))[:_MOST_TRIALS]:
            folder = os.path.join(self.path, name)
            if name not in self._trials and os.path.exists(os.path.join(folder, _PARAMETERS)):
                self._trials[name] = TrialFolder(name, folder, None)
                found = True
        return found

    def told(self, metric: str | None) -> Row:
        """Return trials, and the curves of a metric.

        Args:
            metric: Which; by default the one by which the search compares, or the first.
        """
        trials = [*self._trials.values()]
        metrics = [
            name
            for name in dict.fromkeys(name for trial in trials for name in trial.last)
            if any(_is_number(trial.last.get(name)) for trial in trials)
            and name != "training_iteration"
        ]
        chosen = next((one for one in (metric, self.metric, *metrics) if one in metrics), None)
        rows = [trial.row() for trial in trials]
        for trial, row in zip(trials[:_MOST_CURVES], rows, strict=False):
            row["curve"] = trial.curve(chosen) if chosen is not None else []
        return {
            "name": self.name,
            "path": self.path,
            "kind": self.kind,
            "version": self.version,
            "metrics": metrics,
            "metric": chosen,
            "mode": self.mode or "min",
            "trials": rows,
        }


def _seen(value: object) -> Row:
    """Return what JSON says of a configuration; not what is pickled beside it."""
    if not isinstance(value, dict):
        return {}
    found = value.get("json", value.get("shown"))
    return found if isinstance(found, dict) else {}


def _is_search(path: str) -> bool:
    try:
        names = os.listdir(path)
    except OSError:
        return False
    return any(name == STATES or name.startswith(_STATES_OF_RAY) for name in names)


def _folders_in(path: str) -> list[str]:
    try:
        with os.scandir(path) as found:
            return [one.name for one in found if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def find_runs(path: str) -> list[RunFolder]:
    """Return the trainings and searches at a path or below it, the newest first.

    Raises:
        FileNotFoundError: If there is none.
    """
    root = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(root):
        raise FileNotFoundError(f"{path} is no folder")
    found = [RunFolder(folder) for folder in _run_folders(root)]
    if not found:
        raise FileNotFoundError(f"there is no {STATES} and no {RESULTS} in {path}, or below it")
    found.sort(key=lambda run: os.path.getmtime(run.path), reverse=True)
    return found[:_MOST_FOLDERS]


def _run_folders(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        if RESULTS in names or _is_search(folder):
            folders.clear()
            yield folder
        elif folder[len(root) :].count(os.sep) >= _DEEPEST:
            folders.clear()
