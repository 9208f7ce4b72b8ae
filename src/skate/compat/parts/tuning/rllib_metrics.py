"""`ray.rllib.utils.metrics`: the names of what reinforcement learning reports.

Searches, and callbacks of them, name metrics in this way also where nothing of it runs.
"""

from __future__ import annotations

ENV_RUNNER_RESULTS = "env_runners"
EVALUATION_RESULTS = "evaluation"
LEARNER_RESULTS = "learners"


def __getattr__(name: str) -> str:
    """Return "episode_return_mean" for `EPISODE_RETURN_MEAN`, and others likewise."""
    if not name.isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return name.lower()
