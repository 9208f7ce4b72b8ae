"""Keras reports to the trial it runs in."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from skate._imports import is_installed, try_import
from skate._run.checkpoint import Checkpoint
from skate._run.session import report
from skate.tune.integration._selection import selected

_keras = (
    try_import("keras", "tensorflow")
    if is_installed("keras")
    else try_import("tensorflow", "tensorflow").keras
)


class TuneReportCheckpointCallback(_keras.callbacks.Callback):  # type: ignore[name-defined, misc]
    """Reports Keras' logs at `report_metrics_on`, with the model at `checkpoint_on`.

    `metrics` is a list of names, or a dictionary from the names to report to Keras'.
    """

    def __init__(
        self,
        checkpoint_on: str | list[str] = "epoch_end",
        report_metrics_on: str | list[str] = "epoch_end",
        metrics: str | list[str] | dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._metrics = metrics
        saving = [checkpoint_on] if isinstance(checkpoint_on, str) else checkpoint_on
        reporting = (
            [report_metrics_on] if isinstance(report_metrics_on, str) else report_metrics_on
        )
        for name in {*saving, *reporting}:
            hook = f"on_{name}"
            if not hasattr(_keras.callbacks.Callback, hook):
                raise ValueError(f"Keras has no hook {hook!r}")
            setattr(self, hook, self._hook(save=name in saving))

    def _hook(self, save: bool) -> Any:
        def call(*args: Any, logs: Any = None) -> None:
            logs = logs if logs is not None else next((a for a in args if isinstance(a, dict)), {})
            metrics = selected(logs, self._metrics)
            if save:
                self._report_with_model(metrics)
            elif metrics:
                report(metrics)

        return call

    def _report_with_model(self, metrics: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(os.path.join(folder, "model.keras"))
            report(metrics, checkpoint=Checkpoint.from_directory(folder))


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports logs only."""

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        on: str | list[str] = "epoch_end",
    ) -> None:
        super().__init__(checkpoint_on=[], report_metrics_on=on, metrics=metrics)
