"""Dask's collections on skate: each task of a graph becomes a task, each result an object.

from skate.util.dask import enable_dask_on_ray
enable_dask_on_ray()
frame.groupby("name").mean().compute()

or `compute(scheduler=ray_dask_get)`. `persist()` leaves results in the object store: importing
this gives `dask.persist` the meaning "references" wherever the scheduler is one of these.
"""

from __future__ import annotations

from skate._core.optional_imports import try_import
from skate._core.public_names import name_publicly

try_import("dask", extra="data")

from skate.util.dask._persisting import ray_dask_persist  # noqa: E402
from skate.util.dask.callbacks import (  # noqa: E402
    ProgressBarCallback,
    RayDaskCallback,
    local_ray_callbacks,
    unpack_ray_callbacks,
)
from skate.util.dask.optimizations import dataframe_optimize  # noqa: E402
from skate.util.dask.scheduler import (  # noqa: E402
    disable_dask_on_ray,
    enable_dask_on_ray,
    ray_dask_get,
    ray_dask_get_sync,
)

__all__ = [
    "ProgressBarCallback",
    "RayDaskCallback",
    "dataframe_optimize",
    "disable_dask_on_ray",
    "enable_dask_on_ray",
    "local_ray_callbacks",
    "ray_dask_get",
    "ray_dask_get_sync",
    "ray_dask_persist",
    "unpack_ray_callbacks",
]

name_publicly(__name__)
