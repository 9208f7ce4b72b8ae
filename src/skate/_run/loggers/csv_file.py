"""progress.csv in the folder of each trial."""

from __future__ import annotations

import csv
import functools
import io
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from skate._core.plain_files import open_plain
from skate._run.folders import LocalFolder
from skate._run.loggers.files import FileLoggerCallback, folder_of
from skate._run.types import ResultRow
from skate._run.values import LEAVES, flatten, plain

if TYPE_CHECKING:
    from skate._run.callbacks import TrialLike


PROGRESS_FILE = "progress.csv"


class CSVLoggerCallback(FileLoggerCallback):
    """One row per result. A metric that comes later gets a column of its own, empty before."""

    def __init__(self, flush_every_s: float = 0.0) -> None:
        super().__init__(flush_every_s)
        self._tables: dict[str, tuple[str, list[str]]] = {}  # file and columns by trial

    def log_trial_result(self, iteration: int, trial: TrialLike, result: ResultRow) -> None:
        row = _row_of(result)
        if trial.trial_id not in self._tables:
            place = os.path.join(folder_of(trial), PROGRESS_FILE)
            self._tables[trial.trial_id] = place, _columns_of(place)
        place, columns = self._tables[trial.trial_id]
        data = b""
        if not columns:
            columns += row
            data = _heading(tuple(columns))
        if list(row) == columns:  # as it mostly is
            self.add(place, data + _written([row.values()]))
            return
        missing = row.keys() - set(columns)
        if missing:
            self._flush_trial(trial)
            columns += [name for name in row if name in missing]
            _widen(place, columns)
        self.add(place, _written([[row.get(name, "") for name in columns]]))

    def place_of(self, trial: TrialLike) -> str | None:
        table = self._tables.get(trial.trial_id)
        return table[0] if table else None

    def on_trial_recover(
        self, iteration: int, trials: list[Any], trial: TrialLike, **info: object
    ) -> None:
        """Let go of the file, from which what came after the last checkpoint will be taken out.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            info: What later versions may say besides.
        """
        self._flush_trial(trial)
        self._tables.pop(trial.trial_id, None)

    def log_trial_end(self, trial: TrialLike, failed: bool = False) -> None:
        super().log_trial_end(trial, failed)
        self._tables.pop(trial.trial_id, None)


def table_of(results: list[ResultRow]) -> bytes:
    """Return the content of the file after these results."""
    rows = [_row_of(result) for result in results]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return _written([columns, *([row.get(name, "") for name in columns] for row in rows)])


def _row_of(result: ResultRow) -> ResultRow:
    row: ResultRow = {}
    for name, value in result.items():
        if type(value) in LEAVES:  # as most are
            row[str(name)] = value
            continue
        for inner, leaf in flatten({name: value}):
            row[inner] = plain(leaf)
    return row


def _written(rows: Sequence[Collection[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


@functools.lru_cache(maxsize=64)  # the trials of a search have the same
def _heading(columns: tuple[str, ...]) -> bytes:
    return _written([columns])


def _widen(place: str, columns: list[str]) -> None:
    """Give the file these columns, of which it has the first ones; all or nothing."""
    with open(place, newline="") as file:
        rows = list(csv.reader(file))[1:]
    wide = [row + [""] * (len(columns) - len(row)) for row in rows]
    folder, name = os.path.split(place)
    LocalFolder(folder).write(name, _written([columns, *wide]))


def _columns_of(place: str) -> list[str]:
    """Read the columns of a run that goes on; what a crash cut off the last row is dropped."""
    if not os.path.exists(place):
        return []
    with open(open_plain(place, os.O_RDWR, follow_links=False), "rb+") as file:
        data = file.read()
        end = data.rfind(b"\n") + 1
        file.truncate(end)
    lines = data[:end].decode().splitlines()
    return next(csv.reader(lines[:1])) if lines else []
