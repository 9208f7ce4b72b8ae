"""A trial goes on from its last checkpoint: so does its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._run.history import keep_results
from skate._run.records import RESULT_FILE

if TYPE_CHECKING:
    from skate.tune.experiment.trial import Trial


def roll_back(trial: Trial) -> None:
    """Take back what it reported after the checkpoint that it goes on from; all of it, if there
    is none. What loggers have is written by now."""
    trial.storage.sync()
    rows = trial.storage.lines(RESULT_FILE)
    kept = trial.latest_checkpoint_result
    if kept is not None and not rows:  # nobody writes them down
        return
    remaining = rows[: kept.results] if kept is not None else []
    if len(remaining) < len(rows):
        keep_results(trial.storage, remaining)
    trial.take_history(remaining)
