"""What workers and the driver tell each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.types import ResultRow
from skate._run.validation import ValidationTaskConfig

REPORTED, FINISHED, MEETING = "reported", "finished", "meeting"


class StoppedError(BaseException):
    """`RunConfig.stop` is met: leaves the loop, past its `except Exception`."""


@dataclass
class Event:
    """What a worker's loop has come to."""

    kind: str
    metrics: ResultRow | None = None
    checkpoint_name: str | None = None
    checkpoint: Checkpoint | None = None  # one that is not copied into the run's folder
    checkpoint_class: type[Checkpoint] = Checkpoint
    validation: bool | ValidationTaskConfig = False
    held: bool = False  # its checkpoint is not written, and will not be if a lower rank has one
    positions: dict[str, int] = field(default_factory=dict)  # rows read, by dataset
    value: Any = None


@dataclass
class Answer:
    """All ranks have reported, and what they reported is recorded."""

    next_checkpoint: int
    checkpoint: Checkpoint | None = None  # a new one; None if it is the same as before
    value: Any = None  # of a meeting: what rank 0 brought
    stop: bool = False  # the run is over: leave the loop
