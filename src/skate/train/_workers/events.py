"""What workers and the driver tell each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.context import SessionInfo
from skate._run.types import Positions, ResultRow
from skate._run.validation import ValidationTaskConfig

REPORTED, FINISHED, MEETING = "reported", "finished", "meeting"
JOINING, LEAVING = "joining", "leaving"  # the part of a loop that survives deaths of others


class StoppedError(BaseException):
    """The run is over, or goes on without this worker: leaves the loop, past its `except
    Exception`."""


@dataclass
class Event:
    """What a worker's loop has come to."""

    kind: str
    metrics: ResultRow | None = None
    checkpoint_name: str | None = None
    checkpoint: Checkpoint | None = None  # one that is not copied into the run's folder
    checkpoint_class: type[Checkpoint] = Checkpoint
    validation: bool | ValidationTaskConfig = False
    staged: Any = None  # a checkpoint that is written while the loop goes on
    at_once: bool = False  # the checkpoint is to count when the report returns
    held: bool = False  # its checkpoint is not written, and will not be if a lower rank has one
    positions: Positions = field(default_factory=dict)  # rows read, by dataset
    value: Any = None
    commits: int = -1  # of a worker that joins: how many its state has; -1 if it has no state
    committed: int = 0  # answers that it had got in this part of the loop at its last commit


@dataclass
class Answer:
    """All ranks have reported, and what they reported is recorded."""

    next_checkpoint: int
    checkpoint: Checkpoint | None = None  # a new one; None if it is the same as before
    pending: str | None = None  # the last reported one, if it is not written yet
    value: Any = None  # of a meeting: what rank 0 brought
    stop: bool = False  # the run is over: leave the loop
    lost: int = 0  # no answer: the group with this number has lost a worker


@dataclass
class Joined:
    """The answer's value to a worker that joins: all others have joined too, and the process group
    is there.

    Attributes:
        info: Who this worker is from now on.
        is_new_group: Whether the process group is another one than before.
        source: The rank whose state counts.
        share: Whether somebody needs that state, so that all take part in sending it.
        committed: How many answers the source had got at its last commit.
        replay: What was answered since then.
        datasets: New parts of the datasets, if they were dealt out anew.
        positions: How far the source had read its parts at its last commit.
    """

    info: SessionInfo
    is_new_group: bool = False
    source: int = 0
    share: bool = False
    committed: int = 0
    replay: list[Answer] = field(default_factory=list)
    datasets: dict[str, Any] | None = None
    positions: Positions = field(default_factory=dict)
