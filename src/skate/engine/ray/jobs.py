"""Jobs of a Ray cluster: Ray's own client submits them."""

from __future__ import annotations

from typing import Any


def client_of_ray(**settings: Any) -> Any:
    """Make Ray's client of jobs, which connects at once.

    Args:
        **settings: What it is made with: `address`, `headers` ...
    """
    from ray.job_submission import JobSubmissionClient

    return JobSubmissionClient(**settings)
