"""XGBoost reports to the trial it runs in."""

from __future__ import annotations

from skate._run.boosting import Wanted
from skate.train.xgboost import TrainReportCallback


class TuneReportCheckpointCallback(TrainReportCallback):
    """Reports the metrics of each iteration, as "eval-logloss", and the model every `frequency`
    iterations and at the end."""


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports metrics only."""

    def __init__(self, metrics: Wanted = None) -> None:
        super().__init__(metrics, checkpoint_at_end=False)
