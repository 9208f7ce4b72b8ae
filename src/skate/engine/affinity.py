"""What it means, on one machine, to ask for a certain node."""

from __future__ import annotations

from typing import Any


def elsewhere(strategy: Any, node_id: str) -> dict[str, float]:
    """Return a resource that nobody has, if `strategy` insists on another node than `node_id`.

    So the task cannot run here, and says so as for any resource that is missing.
    """
    wanted = getattr(strategy, "node_id", None)
    if wanted is None or strategy.soft or wanted == node_id:
        return {}
    return {f"node:{wanted}": 1.0}
