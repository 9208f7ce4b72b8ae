"""`ray.train.utils`: whether this is the loop of a training."""

from __future__ import annotations

from skate._run import session as _session


def _in_ray_train_worker() -> bool:
    """Return whether this is the loop of a training, which can meet others; a trial cannot."""
    return _session.in_session() and hasattr(_session.current("_in_ray_train_worker"), "meet")
