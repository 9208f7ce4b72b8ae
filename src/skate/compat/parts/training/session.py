"""`ray.train._internal.session`: whether there is a run, as libraries for Ray ask it."""

from __future__ import annotations

from skate._run import session as _session
from skate._run.session import RunSession, get_checkpoint, get_context, get_dataset_shard, report

__all__ = ["get_checkpoint", "get_context", "get_dataset_shard", "get_session", "report"]


def get_session() -> RunSession | None:
    """Return the session of the training worker or trial that asks; None outside of one."""
    return _session.current("get_session") if _session.in_session() else None
