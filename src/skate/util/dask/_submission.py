"""Tasks of a graph on their way to the engine.

Dask walks the graph (`dask.local.get_async`) and calls `submit` with what is ready, together with
the results of what it depends on. Here these are references, so nothing is waited for: a task is
"done" for Dask when it was submitted, and the engine sees to it that it runs after the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from dask._task_spec import Alias, DataNode, Task

import skate
from skate.util.dask.callbacks import RayCallbacks


class Submission:
    """One run of a graph."""

    def __init__(self, hooks: RayCallbacks, options: Mapping[Any, Mapping[str, Any]]) -> None:
        self._hooks = hooks
        self._options = options

    def submit(self, _execute: object, batch: list[Any]) -> Future[list[Any]]:
        """Stand in for an executor's `submit`, which would call `_execute` with the batch."""
        done: Future[list[Any]] = Future()
        done.set_result(
            [(key, (self._result(key, *info), None), False) for key, info, *_ in batch]
        )
        return done

    def _result(self, key: object, task: object, values: dict[Any, Any]) -> Any:
        """Return the reference of the result, or the result itself if there is nothing to run."""
        answers = [hook(task, key, values) for hook in self._hooks.ray_presubmit_cbs]
        given = next((answer for answer in answers if answer is not None), None)
        if given is not None:
            return given
        if isinstance(task, Alias):
            return values[task.target]
        hooks = (self._hooks.ray_pretask_cbs, self._hooks.ray_posttask_cbs)
        options = self._options.get(key, self._options[None])
        reference = _run.options(**{"name": f"dask:{key}", **options}).remote(
            task, key, hooks, list(values), *values.values()
        )
        for hook in self._hooks.ray_postsubmit_cbs:
            hook(task, key, values, reference)
        return reference


@skate.remote
def _run(task: Any, key: Any, hooks: Any, names: list[Any], *values: Any) -> Any:
    before, after = hooks
    states = [hook and hook(key, values) for hook in before]
    result = _with_values(task)(dict(zip(names, values, strict=True)))
    for hook, state in zip(after, states, strict=True):
        if hook:
            hook(key, result, state)
    return result


def _with_values(part: Any) -> Any:
    """Return the task with values for references that Dask's optimiser has put into it."""
    if isinstance(part, skate.ObjectRef):
        return skate.get(part)
    if isinstance(part, DataNode):
        return DataNode(part.key, _with_values(part.value))
    if isinstance(part, Task):
        part.args = tuple(map(_with_values, part.args))
        part.kwargs = {name: _with_values(value) for name, value in part.kwargs.items()}
    elif isinstance(part, dict):
        return {name: _with_values(value) for name, value in part.items()}
    elif type(part) in (list, tuple):
        return type(part)(map(_with_values, part))
    return part
