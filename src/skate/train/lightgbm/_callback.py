"""LightGBM reports to the run."""

from __future__ import annotations

import os
from typing import Any

import lightgbm

from skate._run.boosting import Metrics
from skate._run.checkpoint import Checkpoint
from skate.train._boosting_callback import TrainBoostingCallback

MODEL_FILE = "model.txt"


class TrainReportCallback(TrainBoostingCallback):
    """For `lightgbm.train(…, callbacks=[TrainReportCallback()])`: reports the metrics of each
    iteration, as "validation-l2", and the model every `frequency` iterations and at the end."""

    CHECKPOINT_NAME = MODEL_FILE
    order = 20  # behind those that record the metrics

    def __call__(self, env: lightgbm.callback.CallbackEnv) -> None:
        found = _metrics(env.evaluation_result_list or ())
        last = env.iteration == env.end_iteration - 1
        self._reports.iteration(env.iteration, env.model, found, last)

    def end(self, model: lightgbm.Booster) -> None:
        """Report the model that `lightgbm.train` has returned, perhaps before all iterations."""
        self._reports.end(model)

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = MODEL_FILE) -> lightgbm.Booster:
        """Return the model in a checkpoint that this callback reported.

        Args:
            checkpoint: The checkpoint.
            filename: The model's file in it.
        """
        with checkpoint.as_directory() as folder:
            return lightgbm.Booster(model_file=os.path.join(folder, filename))


def _metrics(results: Any) -> Metrics:
    """Return metrics by name; those of cross-validation have a mean and a standard deviation."""
    found: Metrics = {}
    for data, metric, value, *rest in results:
        if len(rest) > 1:
            found[f"{data}-{metric}-mean"], found[f"{data}-{metric}-stdv"] = value, rest[1]
        else:
            found[f"{data}-{metric}"] = value
    return found
