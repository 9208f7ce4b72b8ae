"""`dask.persist`: the scheduler is not told that it persists, so the call itself has to say so."""

from __future__ import annotations

from typing import Any

import dask
import dask.base

from skate.util.dask.scheduler import ray_dask_get, ray_dask_get_sync

_persist = dask.base.persist


def ray_dask_persist(*args: object, scheduler: object = None, **kwargs: object) -> Any:
    """Call `dask.persist`; on skate, collections keep references to their parts.

    Args:
        *args: Collections of Dask.
        scheduler: Who runs them; by default the one that Dask is set to.
        **kwargs: What else `dask.persist` and the scheduler take.
    """
    if dask.base.get_scheduler(scheduler=scheduler) in (ray_dask_get, ray_dask_get_sync):
        kwargs["ray_persist"] = True
    return _persist(*args, scheduler=scheduler, **kwargs)


ray_dask_persist.__doc__ = _persist.__doc__
dask.persist = dask.base.persist = ray_dask_persist  # methods of collections call the latter
