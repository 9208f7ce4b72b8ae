"""What the controller wants to be done: data, which the performer carries out in order."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from skate._run.types import ResultRow

if TYPE_CHECKING:
    from skate._run.checkpoint import Checkpoint
    from skate._run.checkpoint_manager import RecordedCheckpoint
    from skate.tune.experiment.trial import Trial

Outcome = TypeVar("Outcome")


@dataclass
class AddTrials:
    """Write down that there are new trials."""

    trials: list[Trial]


@dataclass
class ChangeConfig:
    """Write down that a trial goes on with another configuration."""

    trial: Trial


@dataclass
class BeginTrial:
    """Open the ledger of a trial that has a process now, and tell callbacks."""

    trial: Trial


@dataclass
class RecordResult:
    """Write a result into the trial's ledger, and tell callbacks."""

    trial: Trial
    result: ResultRow


@dataclass
class RecordCheckpoint:
    """Make a checkpoint count, whose result is recorded; then delete those that go for it, and
    tell callbacks."""

    trial: Trial
    recorded: RecordedCheckpoint
    replaced: list[Checkpoint]


@dataclass
class CopyCheckpoint:
    """Copy a checkpoint of another trial into the trial's folder."""

    trial: Trial
    source: Checkpoint
    name: str


@dataclass
class RecordError:
    """Write the error of a trial into its folder."""

    trial: Trial
    error: BaseException


@dataclass
class RollBack:
    """Take back what a trial has reported after the checkpoint that it goes on from."""

    trial: Trial


@dataclass
class EndTrial:
    """Tell callbacks that a trial is over, write down how, and close its files."""

    trial: Trial
    hook: str  # on_trial_complete or on_trial_error


@dataclass
class TellCallbacks:
    """Call a hook of all callbacks."""

    hook: str
    trial: Trial
    info: dict[str, Any] = field(default_factory=dict)


Effect = (
    AddTrials
    | ChangeConfig
    | BeginTrial
    | RecordResult
    | RecordCheckpoint
    | CopyCheckpoint
    | RecordError
    | RollBack
    | EndTrial
    | TellCallbacks
)

Steps = Generator[Effect, None, Outcome]
"""Effects, each to be carried out before the next is asked for, and what comes of them."""
