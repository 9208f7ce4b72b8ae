"""Callbacks for schedulers: Dask's own hooks, and six more around each task."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from dask.callbacks import Callback

import skate
from skate._core.optional_imports import try_import
from skate._core.standard_streams import is_terminal


class RayCallback(NamedTuple):
    """The hooks of one callback; None for those that it does not have."""

    ray_presubmit: Any = None
    ray_postsubmit: Any = None
    ray_pretask: Any = None
    ray_posttask: Any = None
    ray_postsubmit_all: Any = None
    ray_finish: Any = None


class RayCallbacks(NamedTuple):
    """The hooks of several. Those around a task stay in pairs, so None may be among them."""

    ray_presubmit_cbs: list[Any]
    ray_postsubmit_cbs: list[Any]
    ray_pretask_cbs: list[Any]
    ray_posttask_cbs: list[Any]
    ray_postsubmit_all_cbs: list[Any]
    ray_finish_cbs: list[Any]


class RayDaskCallback(Callback):  # type: ignore[misc]
    """Hooks as methods of a subclass (`_ray_pretask`) or as arguments (`ray_pretask=`).

    with MyCallback():
        frame.compute(scheduler=ray_dask_get)
    """

    ray_active: ClassVar[set[RayCallback]] = set()

    def __init__(self, **kwargs: object) -> None:
        for name in RayCallback._fields:
            if (hook := kwargs.pop(name, None)) is not None:
                setattr(self, f"_{name}", hook)
        super().__init__(**kwargs)

    @property
    def _ray_callback(self) -> RayCallback:
        return RayCallback(*(self._hook(f"_{name}") for name in RayCallback._fields))

    def _hook(self, name: str) -> Any:
        """Return the method, if it is not the one below, which does nothing."""
        hook = getattr(self, name)
        return None if getattr(hook, "__func__", None) is getattr(RayDaskCallback, name) else hook

    def __enter__(self) -> RayDaskCallback:
        RayDaskCallback.ray_active.add(self._ray_callback)
        super().__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        super().__exit__(*args)
        RayDaskCallback.ray_active.discard(self._ray_callback)

    def register(self) -> None:
        """Make the hooks of this callback active, for all that Dask computes from now on."""
        RayDaskCallback.ray_active.add(self._ray_callback)
        super().register()

    def unregister(self) -> None:
        """Undo `register`."""
        RayDaskCallback.ray_active.remove(self._ray_callback)
        super().unregister()

    def _ray_presubmit(self, task: Any, key: Any, deps: dict[Any, Any]) -> Any:
        """Run before a task is submitted; what it returns, unless None, is used as the result."""

    def _ray_postsubmit(self, task: Any, key: Any, deps: dict[Any, Any], object_ref: Any) -> None:
        """Run after a task was submitted."""

    def _ray_pretask(self, key: Any, object_refs: Any) -> Any:
        """Run in the worker, before the task; what it returns goes to `_ray_posttask`."""

    def _ray_posttask(self, key: Any, result: Any, pre_state: Any) -> None:
        """Run in the worker, after the task."""

    def _ray_postsubmit_all(self, object_refs: Any, dsk: Any) -> None:
        """Run after all tasks of a graph were submitted, with the references of its results."""

    def _ray_finish(self, result: Any) -> None:
        """Run when the results of a graph are there."""


def unpack_ray_callbacks(cbs: Iterable[RayDaskCallback | RayCallback] | None) -> RayCallbacks:
    """Return the hooks of several callbacks, kind by kind.

    Args:
        cbs: The callbacks; None for none.
    """
    each = [cb._ray_callback if isinstance(cb, RayDaskCallback) else cb for cb in cbs or ()]
    in_pairs = ("ray_pretask", "ray_posttask")
    return RayCallbacks(
        *(
            [hook for hook in (getattr(cb, name) for cb in each) if hook or name in in_pairs]
            for name in RayCallback._fields
        )
    )


@contextmanager
def local_ray_callbacks(callbacks: object = None) -> Iterator[Any]:
    """Yield the callbacks given, or the active ones: those are for the outermost scheduler alone.

    Args:
        callbacks: The callbacks; None for the active ones.
    """
    if callbacks is not None:
        yield callbacks
        return
    active, RayDaskCallback.ray_active = RayDaskCallback.ray_active, set()
    try:
        yield active
    finally:
        RayDaskCallback.ray_active = active


# -- progress -------------------------------------------------------------------------------------


class _Counter:
    """How many tasks have ended, in whatever worker."""

    def __init__(self) -> None:
        self.ended = 0

    def add(self) -> None:
        self.ended += 1

    def value(self) -> int:
        return self.ended


class ProgressBarCallback(RayDaskCallback):
    """A bar on stderr, if that is a terminal, until the results are there."""

    def __init__(self) -> None:
        super().__init__()
        self._submitted = 0
        self._counter = skate.remote(num_cpus=0)(_Counter).remote()

    def _ray_postsubmit(self, task: Any, key: Any, deps: dict[Any, Any], object_ref: Any) -> None:
        self._submitted += 1

    def _ray_posttask(self, key: Any, result: Any, pre_state: Any) -> None:
        self._counter.add.remote()

    def _ray_postsubmit_all(self, object_refs: Any, dsk: Any) -> None:
        if not is_terminal(sys.stderr):
            return
        progress = try_import("rich.progress", extra="data")
        console = try_import("rich.console", extra="data").Console(stderr=True)
        pending = [ref for ref in object_refs if isinstance(ref, skate.ObjectRef)]
        with progress.Progress(console=console, transient=True) as bar:
            row = bar.add_task("dask", total=self._submitted)
            while pending:
                _, pending = skate.wait(pending, num_returns=len(pending), timeout=0.1)
                bar.update(row, completed=skate.get(self._counter.value.remote()))
