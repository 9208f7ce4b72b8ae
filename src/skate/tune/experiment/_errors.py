"""What went wrong in a trial, and whether it is tried again."""

from __future__ import annotations

import os
import time

from skate._run.config_checks import may_retry
from skate._run.errors import ERROR_FILE, error_text, read_error, write_error
from skate._run.folders import LocalFolder, append_whole
from skate.tune.error import TuneError, TuneTrialError
from skate.tune.experiment._paths import TrialPaths
from skate.tune.result import EXPR_ERROR_FILE


class TrialErrors(TrialPaths):
    """The part of a trial that keeps its errors, in memory and in files."""

    status: str
    max_failures: int
    num_failures: int
    num_failures_after_restore: int
    error: BaseException | None
    allow_pickle = False  # whether an error that others pickled may be read

    def handle_error(self, exc: BaseException) -> None:
        """Note that it failed, and write down why.

        Args:
            exc: What was raised.
        """
        self.note_error(exc)
        self.write_error(exc)

    def note_error(self, error: BaseException) -> None:
        """Count a failure.

        Args:
            error: What was raised.
        """
        self.error = error
        self.num_failures += 1
        self.num_failures_after_restore += 1

    def write_error(self, error: BaseException) -> None:
        """Write the failure that was counted last into the trial's folder.

        Args:
            error: What was raised.
        """
        folder = self.local_path
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        head = f"Failure # {self.num_failures} (occurred at {stamp})"
        said = f"{head}\n{error_text(error)}\n".encode(errors="backslashreplace")
        append_whole(os.path.join(folder, EXPR_ERROR_FILE), said)
        write_error(LocalFolder(folder), error, TuneTrialError)

    def should_recover(self) -> bool:
        """Return whether the trial may be tried again after its failures so far."""
        return may_retry(self.num_failures_after_restore, self.max_failures)

    @property
    def error_file(self) -> str | None:
        """Where its errors are written; None if there were none."""
        return f"{self.path}/{EXPR_ERROR_FILE}" if self.num_failures else None

    @property
    def pickled_error_file(self) -> str | None:
        """Where its last error is written; None if there was none."""
        return f"{self.path}/{ERROR_FILE}" if self.num_failures else None

    def get_pickled_error(self) -> BaseException | None:
        """Return the last error; what is known of it, if it is not to be read (see
        `read_error`)."""
        if self.error is not None or not self.num_failures:
            return self.error
        return read_error(self.storage, self.allow_pickle)

    def get_error(self) -> BaseException | None:
        """Return the last error; of a failed trial that has none, a general one."""
        error = self.get_pickled_error()
        if error is None and self.status == "ERROR":
            return TuneError(f"trial {self} failed")
        return error
