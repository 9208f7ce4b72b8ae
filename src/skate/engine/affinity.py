"""What it means on one machine to ask for a certain one."""

from __future__ import annotations

from typing import Any


def elsewhere(strategy: Any, node_id: str) -> dict[str, float]:
    """Return a resource that only the machine has which `strategy` insists on, if that is another
    one than `node_id`: nobody has it, and what cannot run here says so as it always does."""
    wanted = getattr(strategy, "node_id", None)
    if wanted is None or strategy.soft or wanted == node_id:
        return {}
    return {f"node:{wanted}": 1.0}
