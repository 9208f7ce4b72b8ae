"""`ray.tune.track`, which Ray had until 0.8: what a trial reports, by keywords."""

from __future__ import annotations

from skate import tune


def log(**metrics: object) -> None:
    """Report a result of the trial.

    Args:
        metrics: Its values, by their names.
    """
    tune.report(metrics)


def trial_dir() -> str | None:
    """Return the folder of the trial."""
    return tune.get_context().get_trial_dir()
