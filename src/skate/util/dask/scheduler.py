"""The schedulers: functions that Dask calls with a graph and the keys whose values it wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dask
from dask.local import get_async

import skate
from skate.util.dask._submission import Submission
from skate.util.dask.callbacks import local_ray_callbacks, unpack_ray_callbacks


def enable_dask_on_ray(
    shuffle: str | None = "tasks", use_shuffle_optimization: bool = True
) -> dask.config.set:
    """Make `ray_dask_get` Dask's default scheduler, for good or as a context manager.

    Args:
        shuffle: How data frames are shuffled: "tasks" or "disk".
        use_shuffle_optimization: Without effect: it is for Ray's rewriting of graphs, which
            today's Dask does without.

    Example:
        >>> import dask
        >>> from skate.util.dask import enable_dask_on_ray
        >>> with enable_dask_on_ray():
        ...     dask.delayed(sum)([1, 2, 3]).compute()
        6
    """
    return dask.config.set({"scheduler": ray_dask_get, "dataframe.shuffle.method": shuffle})


def disable_dask_on_ray() -> dask.config.set:
    """Let Dask choose again."""
    return dask.config.set({"scheduler": None, "dataframe.shuffle.method": None})


def ray_dask_get(
    dsk: object,
    keys: object,
    *,
    ray_callbacks: object = None,
    ray_persist: bool = False,
    ray_remote_args: Mapping[str, object] | None = None,
    num_workers: int | None = None,
    pool: object = None,
    _ray_enable_progress_bar: bool | None = None,
    **kwargs: object,
) -> Any:
    """Run a graph of Dask: one task each, all submitted at once, in Dask's order.

    Args:
        dsk: The graph.
        keys: What is wanted of it, nested as the results are to be.
        ray_callbacks: Callbacks in place of the active ones.
        ray_persist: Whether the results are references.
        ray_remote_args: Options of all tasks; `dask.annotate(ray_remote_args=...)` goes before
            them.
        num_workers: Without effect: the threads that Ray submits with, of which there are none
            here.
        pool: Without effect, likewise.
        _ray_enable_progress_bar: Without effect: `ProgressBarCallback` shows one.
        **kwargs: What Dask's `get_async` takes.

    Raises:
        ValueError: If there are `resources`, which belong into `ray_remote_args`.

    Example:
        >>> import dask
        >>> from skate.util.dask import ray_dask_get
        >>> dask.delayed(max)([3, 1]).compute(scheduler=ray_dask_get)
        3
    """
    if "resources" in kwargs:
        raise ValueError(_resources(kwargs["resources"]))
    with local_ray_callbacks(ray_callbacks) as active:
        hooks = unpack_ray_callbacks(active)
        submission = Submission(hooks, _options_of_keys(dsk, ray_remote_args or {}))
        references = get_async(submission.submit, 1, dsk, keys, **kwargs)
        for hook in hooks.ray_postsubmit_all_cbs:
            hook(references, dsk)
        del dsk, submission  # what only they refer to goes as soon as it is used
        result = references if ray_persist else _values(references)
        for hook in hooks.ray_finish_cbs:
            hook(result)
    return result


def ray_dask_get_sync(dsk: object, keys: object, **kwargs: Any) -> Any:
    """Run a graph of Dask as `ray_dask_get` does: Ray submits without threads here, skate always.

    Args:
        dsk: The graph.
        keys: What is wanted of it, nested as the results are to be.
        **kwargs: As `ray_dask_get` takes them.
    """
    return ray_dask_get(dsk, keys, **kwargs)


def _values(references: object) -> Any:
    """Return the same tuples of tuples, with values in place of references; all got at once."""
    flat: list[skate.ObjectRef[Any]] = []

    def collect(part: object) -> None:
        if isinstance(part, tuple):
            for item in part:
                collect(item)
        elif isinstance(part, skate.ObjectRef):
            flat.append(part)

    def replace(part: object) -> Any:
        if isinstance(part, tuple):
            return tuple(map(replace, part))
        return next(values) if isinstance(part, skate.ObjectRef) else part

    collect(references)
    values = iter(skate.get(flat))
    return replace(references)


# -- options --------------------------------------------------------------------------------------


def _options_of_keys(dsk: object, common: Mapping[str, object]) -> dict[Any, dict[str, Any]]:
    """Return the options of each task; those of None are for all that have none of their own."""
    around = dask.get_annotations()
    of_keys = _annotations(dsk)
    if "resources" in around or "resources" in of_keys:
        raise ValueError(_resources(around.get("resources") or of_keys["resources"]))
    basic = {**common, **around.get("ray_remote_args", {})}
    own = of_keys.get("ray_remote_args", {})
    return {None: basic, **{key: {**basic, **options} for key, options in own.items()}}


def _annotations(dsk: object) -> dict[str, dict[Any, Any]]:
    """Return what `dask.annotate` said of the parts of a graph: kind, key, value."""
    if hasattr(dsk, "__dask_annotations__"):
        found: dict[str, dict[Any, Any]] = dsk.__dask_annotations__()
        return found
    found = {}
    for layer in getattr(dsk, "layers", {}).values():
        for kind, value in (layer.annotations or {}).items():
            found.setdefault(kind, {}).update(dict.fromkeys(layer.get_output_keys(), value))
    return found


def _resources(received: object) -> str:
    return (
        f"resources={received!r} is for dask.distributed; here they are an option of tasks: "
        'write ray_remote_args={"resources": {...}}'
    )
