"""A trial goes on from its last checkpoint: so does its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._run.loggers.rolling_back import keep_logged

if TYPE_CHECKING:
    from skate.tune.experiment.trial import Trial


def roll_back(trial: Trial) -> None:
    """Take back what it reported after the checkpoint that it goes on from; all of it, if there
    is none. What loggers have is written by now."""
    trial.storage.sync()
    rows = trial.ledger.results()
    recorded = trial.latest_checkpoint_result
    if recorded is not None and not rows:  # nobody writes them down
        return
    remaining = rows[: recorded.results] if recorded is not None else []
    if len(remaining) < len(rows):
        keep_logged(trial.storage, remaining)
        trial.ledger.keep_results(remaining)
    trial.take_history(remaining)
