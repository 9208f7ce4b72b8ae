"""Loggers that write files: lines and records are added to, one file per trial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from skate._run.append_buffer import AppendBuffer
from skate._run.loggers.base import LoggerCallback


def folder_of(trial: Any) -> str:
    """Return where a trial writes. What stands for a trial may know it as `logdir`, Ray's name for
    it until 2.7."""
    return str(trial.local_path if hasattr(trial, "local_path") else trial.logdir)


class FileLoggerCallback(LoggerCallback, ABC):
    """Adds to one file per trial. What waits in memory is written in any case at a checkpoint and
    at the end of a trial.

    Args:
        flush_every_s: Seconds that a result may wait to be written together with others.
    """

    def __init__(self, flush_every_s: float = 0.0) -> None:
        super().__init__()
        self._buffer = AppendBuffer(flush_every_s)

    def add(self, place: str, data: bytes) -> None:
        """Add to a file.

        Args:
            place: The file.
            data: What to add.
        """
        self._buffer.add(place, data)

    def flush(self) -> None:
        """Write all that waits."""
        self._buffer.flush()

    def flush_if_due(self) -> None:
        """Write all that waits, if the first of it has waited long enough."""
        self._buffer.flush_if_due()

    @abstractmethod
    def place_of(self, trial: Any) -> str | None:
        """Return the trial's file, if it has one."""

    def _flush_trial(self, trial: Any) -> None:
        self._buffer.flush_file(self.place_of(trial))

    def log_trial_save(self, trial: Any) -> None:
        self._flush_trial(trial)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        self._flush_trial(trial)

    def on_trial_recover(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        """Write what waits: what came after the last checkpoint will be taken out of the file.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            info: What later versions may say besides.
        """
        self._flush_trial(trial)

    def on_step_end(self, iteration: int, trials: list[Any], **info: object) -> None:
        self.flush_if_due()

    def on_experiment_end(self, trials: list[Any], **info: object) -> None:
        self.flush()
