"""What loggers write, copied to where the experiment's folder is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate._run.storage import Storage
    from skate.tune.execution.controller import TuneController

_AT_LEAST = 1.0
_SHARE = 10  # at most one part in this many of the time


class Uploads:
    """Copies the files of trials that run, so that a kill costs seconds of them. On this machine
    loggers write to the folder itself."""

    def __init__(self, storage: Storage, controller: TuneController) -> None:
        self._is_local = storage.is_local
        self._controller = controller
        self._due = 0.0

    def send_if_due(self) -> None:
        """Copy if it is time."""
        start = time.monotonic()
        if self._is_local or start < self._due:
            return
        for trial in self._controller.get_live_trials():
            trial.storage.sync()
        now = time.monotonic()
        self._due = now + max(_AT_LEAST, (now - start) * _SHARE)
