"""What a trial tells the driver, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from skate._run.types import ResultRow


class TrialVerdict(Enum):
    """What a trial is told that has reported or saved."""

    GO_ON = "go on"
    SAVE = "save"  # then wait for another verdict
    HALT = "halt"
    HALT_AND_SAVE = "halt and save"

    @property
    def halts(self) -> bool:
        """Whether the trial is to leave its function or its loop."""
        return self in (TrialVerdict.HALT, TrialVerdict.HALT_AND_SAVE)


@dataclass
class Began:
    """Its process has taken the trial.

    Attributes:
        pid: Which process that is.
    """

    pid: int


@dataclass
class Reported:
    """It has reported a result.

    Attributes:
        result: What was reported, with what is filled in.
        checkpoint: The place of the checkpoint that came with it, in the trial's folder.
    """

    result: ResultRow
    checkpoint: str | None = None


@dataclass
class Saved:
    """It has saved without a result.

    Attributes:
        checkpoint: The place of the checkpoint in the trial's folder; `None` if the trial was
            asked for one and cannot make it, as a function.
    """

    checkpoint: str | None


@dataclass
class Ended:
    """Nothing more will come of it.

    Attributes:
        stuck: Whether it was halted and does not leave: its process cannot be used again.
    """

    stuck: bool = False


TrialEvent = Began | Reported | Saved | Ended
