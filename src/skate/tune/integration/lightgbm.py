"""LightGBM reports to the trial it runs in."""

from __future__ import annotations

from skate.train.lightgbm import TrainReportCallback
from skate.tune.integration._boosting import ModelsInBetween, NoModels


class TuneReportCheckpointCallback(ModelsInBetween, TrainReportCallback):
    """Reports the metrics of each iteration, as "eval-binary_logloss", and the model every
    `frequency` iterations and at the end."""


class TuneReportCallback(NoModels, TrainReportCallback):
    """Reports metrics only."""
