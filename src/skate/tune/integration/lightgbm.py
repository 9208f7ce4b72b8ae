"""LightGBM reports to the trial it runs in."""

from __future__ import annotations

from skate.train.lightgbm import TrainReportCallback
from skate.tune.integration._boosting import ModelsInBetween, NoModels


class TuneReportCheckpointCallback(ModelsInBetween, TrainReportCallback):
    """Report the metrics of each iteration, as "eval-binary_logloss", and the model.

    The model is a checkpoint every `frequency` iterations and at the end.
    """


class TuneReportCallback(NoModels, TrainReportCallback):
    """Reports metrics only."""
