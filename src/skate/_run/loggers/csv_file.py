"""progress.csv in the folder of each trial."""

from __future__ import annotations

import csv
import io
import os
from typing import Any

from skate._run.loggers.files import FileLoggerCallback
from skate._run.values import flatten, plain

PROGRESS_FILE = "progress.csv"


class CSVLoggerCallback(FileLoggerCallback):
    """One row per result. The columns are those of the first result."""

    def __init__(self, flush_every_s: float = 0.0) -> None:
        super().__init__(flush_every_s)
        self._tables: dict[str, tuple[str, list[str]]] = {}

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        row = {name: plain(value) for name, value in flatten(result)}
        table = self._tables.get(trial.trial_id)
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        if table is None:
            place = os.path.join(trial.local_path, PROGRESS_FILE)
            columns = _columns_of(place)
            if columns is None:
                columns = list(row)
                writer.writerow(columns)
            table = self._tables[trial.trial_id] = (place, columns)
        place, columns = table
        writer.writerow([row.get(name, "") for name in columns])
        self.add(place, text.getvalue().encode())

    def place_of(self, trial: Any) -> str | None:
        table = self._tables.get(trial.trial_id)
        return table[0] if table else None

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        super().log_trial_end(trial, failed)
        self._tables.pop(trial.trial_id, None)


def _columns_of(place: str) -> list[str] | None:
    """Those of a run that goes on; what a crash cut off the last row is dropped."""
    try:
        with open(place, "rb+") as file:
            data = file.read()
            end = data.rfind(b"\n") + 1
            file.truncate(end)
    except FileNotFoundError:
        return None
    lines = data[:end].decode().splitlines()
    return next(csv.reader(lines[:1])) if lines else None
