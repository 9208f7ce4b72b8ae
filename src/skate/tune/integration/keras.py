"""Keras reports to the trial it runs in."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

from skate._imports import is_installed, try_import
from skate._run.checkpoint import Checkpoint
from skate._run.session import report
from skate.tune.integration._selection import selected

_keras = (
    try_import("keras", "tensorflow")
    if is_installed("keras")
    else try_import("tensorflow", "tensorflow").keras
)


Names = str | list[str]
Metrics = Names | dict[str, str] | None


@dataclass(frozen=True)
class _Plan:
    """What is reported and when; `every` is by hook: at every n-th call a model, at 0 none."""

    metrics: Metrics
    every: dict[str, int]
    filename: str = "model.keras"


class TuneReportCheckpointCallback(_keras.callbacks.Callback):  # type: ignore[name-defined, misc]
    """Reports Keras' logs at `report_metrics_on`, with the model at `checkpoint_on`.

    `metrics` is a list of names, or a dictionary from the names to report to Keras'. The older
    order of arguments is taken as well: logs are reported at each of `on`, with the model at every
    `frequency`-th (a list has one number per hook). Keras wants an ending for what it saves:
    `filename` gets ".keras" if it has neither that nor ".h5".
    """

    @overload
    def __init__(
        self,
        checkpoint_on: Names = "epoch_end",
        report_metrics_on: Names = "epoch_end",
        metrics: Metrics = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = "model",
        frequency: int | list[int] = 1,
        on: Names = "epoch_end",
    ) -> None: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        older = bool({"filename", "frequency", "on"} & kwargs.keys())
        if args and not _are_like_hooks(args[0]):
            older = True
        self._plan = (_older_arguments if older else _arguments)(*args, **kwargs)
        self._calls: Counter[str] = Counter()
        for name in self._plan.every:
            hook = f"on_{name}"
            if not hasattr(_keras.callbacks.Callback, hook):
                raise ValueError(f"Keras has no hook {hook!r}; one is 'epoch_end'")
            setattr(self, hook, partial(self._handle, name))

    def _handle(self, name: str, *args: Any, logs: Any = None) -> None:
        logs = logs if logs is not None else next((a for a in args if isinstance(a, dict)), {})
        metrics = selected(logs, self._plan.metrics)
        self._calls[name] += 1
        every = self._plan.every[name]
        if every and self._calls[name] % every == 0:
            self._report_with_model(metrics)
        elif metrics:
            report(metrics)

    def _report_with_model(self, metrics: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(os.path.join(folder, self._plan.filename))
            report(metrics, checkpoint=Checkpoint.from_directory(folder))


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports logs only."""

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        on: str | list[str] = "epoch_end",
    ) -> None:
        super().__init__(checkpoint_on=[], report_metrics_on=on, metrics=metrics)


def _are_like_hooks(given: Any) -> bool:
    """Whether a first argument says when, rather than what."""
    if isinstance(given, str):
        given = [given]
    return isinstance(given, (list, tuple)) and all(
        isinstance(name, str) and name.endswith(("_begin", "_end")) for name in given
    )


def _arguments(
    checkpoint_on: Names = "epoch_end",
    report_metrics_on: Names = "epoch_end",
    metrics: Metrics = None,
) -> _Plan:
    saving = _listed(checkpoint_on)
    every = {name: int(name in saving) for name in [*saving, *_listed(report_metrics_on)]}
    return _Plan(metrics, every)


def _older_arguments(
    metrics: Metrics = None,
    filename: str = "model",
    frequency: int | list[int] = 1,
    on: Names = "epoch_end",
) -> _Plan:
    hooks = _listed(on)
    numbers = [frequency] * len(hooks) if isinstance(frequency, int) else frequency
    if len(numbers) != len(hooks) or min(numbers, default=1) < 1:
        raise ValueError(
            f"frequency takes a number from 1, or a list with one for each of {hooks}; got "
            f"{frequency!r}"
        )
    ending = "" if filename.endswith((".keras", ".h5")) else ".keras"
    return _Plan(metrics, dict(zip(hooks, numbers, strict=True)), filename + ending)


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
