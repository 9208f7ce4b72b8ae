"""Which checkpoints of a run stay: the last one, and the best."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig
from skate._run.reporting import AUTOMATIC
from skate._run.types import MetricsLike, Positions, ResultRow
from skate._run.validation import ReportedCheckpointStatus
from skate._run.values import lookup, numbers_in, plain

CHECKPOINT_NAME = "checkpoint_{:06d}"


def number_of(name: str) -> int | None:
    """Return the number in a name that is written like that; None in others."""
    found = re.fullmatch(r"checkpoint_(\d{6,})", name)
    return int(found[1]) if found else None


@dataclass(eq=False)
class RecordedCheckpoint:
    """A checkpoint that counts, and what is known of it.

    Attributes:
        checkpoint: The checkpoint.
        metrics: What was reported with it.
        positions: How many rows of each dataset each rank had read by then, by rank.
        validation: The last line of its validation, if one was asked for.
        results: How many results a trial had reported by then, if that is known.
    """

    checkpoint: Checkpoint
    metrics: ResultRow = field(default_factory=dict)
    positions: list[Positions] | None = None
    validation: dict[str, Any] | None = None
    results: int | None = None

    @property
    def status(self) -> ReportedCheckpointStatus:
        status = (self.validation or {}).get("status", ReportedCheckpointStatus.COMMITTED)
        return ReportedCheckpointStatus(status)

    @property
    def pending(self) -> bool:
        return self.status is ReportedCheckpointStatus.PENDING_VALIDATION


class CheckpointManager:
    """Chooses which checkpoints of a run stay, by a `CheckpointConfig`; deleting is up to the
    caller."""

    def __init__(self, config: CheckpointConfig | None = None) -> None:
        self.config: CheckpointConfig = config or CheckpointConfig()
        self._recorded: list[RecordedCheckpoint] = []  # in the order of their reports
        self._warned = False

    @property
    def latest(self) -> RecordedCheckpoint | None:
        return self._recorded[-1] if self._recorded else None

    @property
    def best(self) -> RecordedCheckpoint | None:
        """By the score, or the last one if there is none."""
        ranked = self._ranked()
        return ranked[-1] if ranked else None

    @property
    def best_checkpoints(self) -> list[tuple[Checkpoint, ResultRow]]:
        """Those that `num_to_keep` is for, the best last when there is a score. The last one,
        which is kept in any case, may not be among them."""
        chosen = self._ranked()[-(self.config.num_to_keep or 0) :]
        return [(entry.checkpoint, entry.metrics) for entry in chosen]

    @property
    def in_order(self) -> list[tuple[Checkpoint, ResultRow]]:
        """All that are kept, in the order of their reports."""
        return [(entry.checkpoint, entry.metrics) for entry in self._recorded]

    def register(
        self,
        checkpoint: Checkpoint,
        metrics: MetricsLike,
        positions: list[Positions] | None = None,
    ) -> list[Checkpoint]:
        """Note a new checkpoint, which may have taken the place of another of the same name;
        returns those that are to be deleted now."""
        return self.keep(RecordedCheckpoint(checkpoint, dict(metrics), positions))

    def keep(self, new: RecordedCheckpoint) -> list[Checkpoint]:
        """Take a checkpoint with all that is known about it; return those to delete now."""
        self._recorded = [entry for entry in self._recorded if entry.checkpoint != new.checkpoint]
        self._recorded.append(new)
        if not new.pending:  # else its validation may bring the score
            self._check_score(new.metrics)
        return self._dismissed()

    def validated(self, checkpoint: Checkpoint, line: ResultRow) -> list[Checkpoint]:
        """Take what a validation found, as the line says; return those to delete now."""
        for entry in self._recorded:
            if entry.checkpoint == checkpoint:
                entry.validation = line
                entry.metrics = {**entry.metrics, **line.get("metrics", {})}
                self._check_score(entry.metrics)
        return self._dismissed()

    @property
    def pending(self) -> list[RecordedCheckpoint]:
        """Those that are yet to be validated."""
        return [entry for entry in self._recorded if entry.pending]

    def add_metrics(self, metrics: MetricsLike) -> list[Checkpoint]:
        """Add metrics that were reported right after the last checkpoint, and belong to it; return
        those to delete now."""
        if self._recorded:
            self._recorded[-1].metrics = {**self._recorded[-1].metrics, **metrics}
            self._check_score(metrics)
        return self._dismissed()

    def _check_score(self, metrics: MetricsLike) -> None:
        """Say once if the metrics have no score, as when its name is misspelt."""
        name = self.config.checkpoint_score_attribute
        if self._warned or not metrics or name is None or lookup(metrics, name) is not None:
            return
        self._warned = True
        there = [n for n, _ in numbers_in(metrics) if n.partition("/")[0] not in AUTOMATIC]
        warnings.warn(
            f"checkpoint_score_attribute={name!r} is not among the metrics of a checkpoint, which "
            f"are {there}: it counts as worse than all that have it, and if none has it, the "
            "last ones are kept",
            stacklevel=2,
        )

    def _dismissed(self) -> list[Checkpoint]:
        number = self.config.num_to_keep
        if number is None:
            return []
        worst = self._ranked()[:-number]
        surplus = [entry for entry in worst if entry is not self.latest and not entry.pending]
        self._recorded = [entry for entry in self._recorded if entry not in surplus]
        return [entry.checkpoint for entry in surplus]

    def _ranked(self) -> list[RecordedCheckpoint]:
        """Sort the checkpoints from worst to best; those without a score come first."""
        name = self.config.checkpoint_score_attribute
        if name is None:
            return list(self._recorded)
        sign = 1 if self.config.checkpoint_score_order == "max" else -1

        def rank(entry: RecordedCheckpoint) -> tuple[bool, Any]:
            score = plain(lookup(entry.metrics, name))
            known = isinstance(score, (int, float)) and score == score  # not NaN
            return known, sign * score if known else 0

        return sorted(self._recorded, key=rank)
