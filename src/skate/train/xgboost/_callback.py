"""XGBoost reports to the run."""

from __future__ import annotations

import os
from typing import Any

import xgboost

from skate._run.checkpoint import Checkpoint
from skate.train._boosting_callback import TrainBoostingCallback

MODEL_FILE = "model.ubj"


class TrainReportCallback(TrainBoostingCallback, xgboost.callback.TrainingCallback):
    """For `xgboost.train(…, callbacks=[TrainReportCallback()])`: reports the metrics of each
    iteration, as "validation-rmse", and the model every `frequency` iterations and at the end."""

    CHECKPOINT_NAME = MODEL_FILE

    def after_iteration(self, model: xgboost.Booster, epoch: int, evals_log: Any) -> bool:
        found = {
            f"{data}-{metric}": values[-1]
            for data, metrics in evals_log.items()
            for metric, values in metrics.items()
        }
        self._reports.iteration(epoch, model, found)
        return False

    def after_training(self, model: xgboost.Booster) -> object:
        """Report the model that came of the training.

        Args:
            model: The model.

        Returns:
            The same model.
        """
        self._reports.end(model)
        return model

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = MODEL_FILE) -> xgboost.Booster:
        """Return the model in a checkpoint that this callback reported.

        Args:
            checkpoint: The checkpoint.
            filename: The model's file in it.
        """
        booster = xgboost.Booster()
        with checkpoint.as_directory() as folder:
            booster.load_model(os.path.join(folder, filename))
        return booster
