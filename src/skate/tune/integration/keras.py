"""Keras reports to the trial it runs in."""

from __future__ import annotations

from typing import Any, overload

from skate._run.checkpoint import Checkpoint
from skate._run.keras_models import MODEL_FILE, model_checkpoint
from skate._run.keras_reports import (
    Metrics,
    Names,
    Reporting,
    each_event,
    every_so_often,
    listed,
)

__all__ = ["TuneReportCallback", "TuneReportCheckpointCallback"]


class TuneReportCheckpointCallback(Reporting):
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
        older = bool({"filename", "frequency", "on"} & kwargs.keys())
        if args and not _are_like_events(args[0]):
            older = True
        every, metrics, self._filename = (_older if older else _newer)(*args, **kwargs)
        super().__init__(every, metrics)

    def _checkpoint(self) -> Checkpoint:
        return model_checkpoint(Checkpoint, self.model, self._filename)


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports logs only."""

    def __init__(self, metrics: Metrics = None, on: Names = "epoch_end") -> None:
        super().__init__(checkpoint_on=[], report_metrics_on=on, metrics=metrics)


def _are_like_events(given: object) -> bool:
    """Return whether a first argument says when, rather than what."""
    return isinstance(given, (str, list, tuple)) and all(
        str(name).endswith(("_begin", "_end")) for name in listed(given)
    )


def _newer(
    checkpoint_on: Names = "epoch_end",
    report_metrics_on: Names = "epoch_end",
    metrics: Metrics = None,
) -> tuple[dict[str, int], Metrics, str]:
    return each_event(checkpoint_on, report_metrics_on), metrics, MODEL_FILE


def _older(
    metrics: Metrics = None,
    filename: str = "model",
    frequency: int | list[int] = 1,
    on: Names = "epoch_end",
) -> tuple[dict[str, int], Metrics, str]:
    ending = "" if filename.endswith((".keras", ".h5")) else ".keras"
    return every_so_often(on, frequency), metrics, filename + ending
