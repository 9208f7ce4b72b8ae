"""Loggers that write files: lines and records are added to, one file per trial."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from skate._run.folders import append_whole
from skate._run.loggers.base import LoggerCallback

MOST_BYTES = 1 << 16


def folder_of(trial: Any) -> str:
    """Where a trial writes. What stands for a trial may know it by its name until Ray 2.7."""
    return str(trial.local_path if hasattr(trial, "local_path") else trial.logdir)


class FileLoggerCallback(LoggerCallback):
    """With `flush_every_s` above 0, what comes within that time is written together: many trials
    that report thousands of times a second would spend most of it opening files. It is written
    in any case at a checkpoint and at the end of a trial."""

    def __init__(self, flush_every_s: float = 0.0) -> None:
        super().__init__()
        self._every = flush_every_s
        self._pending: dict[str, bytearray] = {}
        self._due = 0.0

    def add(self, place: str, data: bytes) -> None:
        """Add to a file."""
        if not self._every:
            append_whole(place, data)
            return
        if not self._pending:
            self._due = time.monotonic() + self._every
        waiting = self._pending.setdefault(place, bytearray())
        waiting += data
        if len(waiting) > MOST_BYTES:
            append_whole(place, self._pending.pop(place))

    def flush(self) -> None:
        """Write all that waits."""
        pending, self._pending = self._pending, {}
        for place, data in pending.items():
            append_whole(place, data)

    def place_of(self, trial: Any) -> str | None:
        """The trial's file, if it has one."""
        raise NotImplementedError

    def _flush_trial(self, trial: Any) -> None:
        place = self.place_of(trial)
        if place in self._pending:
            append_whole(place, self._pending.pop(place))

    def log_trial_save(self, trial: Any) -> None:
        self._flush_trial(trial)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        self._flush_trial(trial)

    def on_trial_recover(
        self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any
    ) -> None:
        """What came after the last checkpoint will be taken out of the file."""
        self._flush_trial(trial)

    def on_step_end(self, iteration: int, trials: Sequence[Any], **info: Any) -> None:
        if self._pending and time.monotonic() >= self._due:
            self.flush()

    def on_experiment_end(self, trials: Sequence[Any], **info: Any) -> None:
        self.flush()
