"""A trainer inside of a trial reports to it."""

from __future__ import annotations

from typing import Any

from skate._run.callbacks import UserCallback
from skate._run.reporting import Report
from skate._run.session import current

CHECKPOINT_PATH_KEY = "checkpoint_path"


class TuneReportCallback(UserCallback):
    """Report what a trainer inside of a trial's function reports: `RunConfig(callbacks=[…])`.

    The place of a checkpoint is reported as `checkpoint_path`.
    """

    def __init__(self) -> None:
        self._session = current("TuneReportCallback()")

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any
    ) -> None:
        place = {CHECKPOINT_PATH_KEY: checkpoint.path} if checkpoint else {}
        self._session.report(Report({**metrics[0], **place}))
