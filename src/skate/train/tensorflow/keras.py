"""Reports and checkpoints from `model.fit`."""

from __future__ import annotations

from collections.abc import Sequence

from skate._core.optional_imports import try_import
from skate._run.checkpoint import MODEL_KEY, Checkpoint
from skate._run.keras_models import model_checkpoint
from skate._run.keras_reports import Metrics, Names, Reporting, each_event, every_so_often
from skate.train.tensorflow.tensorflow_checkpoint import TensorflowCheckpoint

__all__ = ["Callback", "ReportCheckpointCallback"]

try_import("tensorflow", "tensorflow")


class ReportCheckpointCallback(Reporting):
    """Report what Keras logs, and save the model, at events of its training.

    Args:
        checkpoint_on: The event, or several, at which a checkpoint is reported, as "epoch_end". It
            never comes without metrics.
        report_metrics_on: The event, or several, at which metrics are reported.
        metrics: Names to report, or a dictionary of names to report by names that Keras uses; by
            default all.
    """

    def __init__(
        self,
        checkpoint_on: Names = "epoch_end",
        report_metrics_on: Names = "epoch_end",
        metrics: Metrics = None,
    ) -> None:
        super().__init__(each_event(checkpoint_on, report_metrics_on), metrics)

    def _checkpoint(self) -> Checkpoint:
        return model_checkpoint(TensorflowCheckpoint, self.model)


class Callback(Reporting):
    """Report at events of Keras, and weights at every so many of them, as until Ray 2.4.

    Args:
        metrics: The logs to report: None for all, a name, several, or a dictionary of new names.
        on: The event, or several.
        frequency: At every how many of them a checkpoint is reported, as `{"model": weights}`; a
            list has one number per event; 0 is never.
    """

    def __init__(
        self,
        metrics: Metrics = None,
        on: Names = "epoch_end",
        frequency: int | Sequence[int] = 1,
    ) -> None:
        super().__init__(every_so_often(on, frequency), metrics)

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint.from_dict({MODEL_KEY: self.model.get_weights()})
