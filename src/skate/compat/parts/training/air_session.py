"""What `ray.air.session` answers where there is no run: it warns, and answers as Ray does.

Programs for Ray call their training loops by themselves, too, to try them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.compat.parts.tuning.outside import get_checkpoint, is_outside, report
from skate.train import session as _session

__all__ = [
    "get_checkpoint",
    "get_dataset_shard",
    "get_experiment_name",
    "get_local_rank",
    "get_local_world_size",
    "get_node_rank",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "get_world_rank",
    "get_world_size",
    "report",
]


def _asked(name: str, otherwise: int | None = None) -> Callable[..., Any]:
    """Return the function of that name, which returns `otherwise` outside of a run."""
    inside = getattr(_session, name)

    def asked(*args: Any, **kwargs: Any) -> Any:
        return otherwise if is_outside(name) else inside(*args, **kwargs)

    asked.__name__ = asked.__qualname__ = name  # it is pickled by its own name
    asked.__doc__ = inside.__doc__
    return asked


get_dataset_shard = _asked("get_dataset_shard")
get_experiment_name = _asked("get_experiment_name")
get_local_rank = _asked("get_local_rank", 0)
get_local_world_size = _asked("get_local_world_size", 0)
get_node_rank = _asked("get_node_rank", 0)
get_trial_dir = _asked("get_trial_dir")
get_trial_id = _asked("get_trial_id")
get_trial_name = _asked("get_trial_name")
get_trial_resources = _asked("get_trial_resources")
get_world_rank = _asked("get_world_rank", 0)
get_world_size = _asked("get_world_size", 1)
