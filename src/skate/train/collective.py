"""What all workers of a training loop do together, without a back end of their own."""

from __future__ import annotations

from typing import Any

from skate._run.session import acting


def barrier() -> None:
    """Wait until all workers have called this."""
    _session("barrier()").meet()


def broadcast_from_rank_zero(data: object) -> Any:
    """Return what rank 0 gives, on all workers.

    Args:
        data: What can be pickled; that of other ranks does not count.

    Raises:
        RuntimeError: If it is called elsewhere than in a training loop.
    """
    return _session("broadcast_from_rank_zero()").meet(data)


def _session(caller: str) -> Any:
    session = acting(f"train.collective.{caller}")
    if not hasattr(session, "meet"):
        raise RuntimeError(f"train.collective.{caller} is for training loops, not for trials")
    return session
