"""The checkpoints of the run so far, for its own loop."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.records import RESULT_FILE, recorded_checkpoints
from skate._run.reporting import Metrics
from skate._run.session import current


class CheckpointConsistencyMode(Enum):
    """Until when `get_all_reported_checkpoints` waits. A reported checkpoint is committed when
    `report` returns, so neither of them waits."""

    COMMITTED = "COMMITTED"
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(Enum):
    """COMMITTED: in the run's folder for good."""

    COMMITTED = "COMMITTED"


@dataclass
class ReportedCheckpoint:
    """A checkpoint and the metrics that were reported with it."""

    checkpoint: Checkpoint
    metrics: dict[str, Any]
    status: ReportedCheckpointStatus = ReportedCheckpointStatus.COMMITTED


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[ReportedCheckpoint]:
    """All checkpoints of this run that were kept, in the order of their reports. All of them are
    there at once, so `timeout_s` never passes."""
    storage = current("get_all_reported_checkpoints()").whereabouts.storage
    found = recorded_checkpoints(storage, storage.lines(RESULT_FILE))
    return [ReportedCheckpoint(kept.checkpoint, Metrics(kept.metrics)) for kept in found]
