"""The checkpoints of the run so far, for its own loop."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import Enum

from skate._core.enumerations import looked_up_by_value
from skate._run.checkpoint import Checkpoint
from skate._run.ledger import Ledger
from skate._run.reporting import Metrics
from skate._run.session import current
from skate._run.types import ResultRow
from skate._run.validation import ReportedCheckpointStatus

FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.05, 2.0  # between looks at the run's folder


@looked_up_by_value
class CheckpointConsistencyMode(Enum):
    """Say until when `get_all_reported_checkpoints` waits.

    A reported checkpoint is COMMITTED when it is written, which is when `report` returns unless it
    was reported with `CheckpointUploadMode.ASYNC`; it is VALIDATED when the validation that was
    asked for has ended.

    Args:
        value: "COMMITTED" or "VALIDATED".
    """

    COMMITTED = "COMMITTED"
    VALIDATED = "VALIDATED"


@dataclass
class ReportedCheckpoint:
    """Hold a checkpoint and the metrics that were reported with it.

    Args:
        checkpoint: The checkpoint.
        metrics: What was reported with it, and by its validation.
        status: What has come of its validation; COMMITTED if none was asked for.
    """

    checkpoint: Checkpoint
    metrics: ResultRow
    status: ReportedCheckpointStatus = ReportedCheckpointStatus.COMMITTED


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[ReportedCheckpoint]:
    """Return all checkpoints of this run that were kept, in the order of their reports.

    Args:
        consistency_mode: Whether to wait for validations that were asked for (VALIDATED), or only
            for the last checkpoint to be written (COMMITTED).
        timeout_s: Seconds to wait at the most; `None` waits for ever.
    """
    session = current("get_all_reported_checkpoints()")
    info = session.info
    ledger = Ledger(info.storage)
    waits = info.validates and consistency_mode is CheckpointConsistencyMode.VALIDATED
    end = math.inf if timeout_s is None else time.monotonic() + timeout_s
    patience = FIRST_LOOK_SECONDS
    while True:
        session.check()
        unwritten = session.pending_checkpoint
        written = unwritten is None or ledger.knows(unwritten)
        found = ledger.checkpoints()
        left = end - time.monotonic()
        validated = not waits or not any(one.pending for one in found)
        if left <= 0 or (written and validated):
            return [
                ReportedCheckpoint(one.checkpoint, Metrics(one.metrics), one.status)
                for one in found
            ]
        time.sleep(min(patience, left))
        patience = min(patience * 1.5, LONGEST_LOOK_SECONDS)
