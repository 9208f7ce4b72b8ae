"""What type checkers know of datasets, trainers and tuners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from typing_extensions import assert_type

import skate
from skate import train, tune
from skate.data.aggregate import AggregateFnV2
from skate.train import Checkpoint, Result, RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer
from skate.tune.experiment import Trial
from skate.tune.logger import LoggerCallback


def datasets(rows: list[dict[str, Any]]) -> None:
    numbers = skate.data.from_items(rows).map(lambda row: {**row, "b": 1})
    assert_type(numbers, skate.data.Dataset)
    assert_type(numbers.take(2), list[dict[str, Any]])
    assert_type(numbers.count(), int)
    assert_type(numbers.columns(), list[str] | None)
    for batch in numbers.iter_batches(batch_size=2):
        assert_type(batch, dict[str, np.ndarray[Any, Any]])
    for tensors in numbers.iter_torch_batches(batch_size=2, dtypes=torch.float32):
        assert_type(tensors, dict[str, torch.Tensor])
    for collated in numbers.iter_torch_batches(collate_fn=len):
        assert_type(collated, int)
    for row in numbers.iter_rows():
        assert_type(row, dict[str, Any])
    parts = numbers.streaming_split(2)
    assert_type(parts, list[skate.data.DataIterator])
    for tensors in parts[0].iter_torch_batches(device="cpu"):
        assert_type(tensors["b"], torch.Tensor)


def loop(config: dict[str, Any]) -> None:
    assert_type(train.get_context().get_world_size(), int)
    assert_type(train.get_checkpoint(), Checkpoint | None)
    train.report({"loss": 1.0})


def training() -> None:
    trainer = TorchTrainer(
        loop,
        train_loop_config={"rate": 0.1},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="one"),
    )
    result = trainer.fit()
    assert_type(result, Result)
    assert_type(result.checkpoint, Checkpoint | None)


def tuning() -> None:
    tuner = tune.Tuner(loop, param_space={"rate": tune.grid_search([0.1, 0.2])})
    results = tuner.fit()
    assert_type(results, tune.ResultGrid)
    assert_type(results.get_best_result("loss", "min"), Result)
    for result in results:
        assert_type(result, Result)


class Told(tune.Callback):
    """Annotated as programs for Ray do it: more narrowly than the hooks themselves."""

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: object,
    ) -> None:
        assert_type(trial.trial_id, str)


class Logged(LoggerCallback):
    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        assert_type(trial.config, dict[str, Any])


class Watching(train.UserCallback):
    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None
    ) -> None:
        assert_type(metrics[0], dict[str, Any])

    def after_run(self, run_context: Any, result: Result) -> None:
        assert_type(result.checkpoint, Checkpoint | None)


class Longest(AggregateFnV2):
    def combine(self, current_accumulator: int, new: int) -> int:
        return max(current_accumulator, new)

    def finalize(self, accumulator: int) -> int:
        return accumulator


def settings_in_variables(numbers: skate.data.Dataset) -> None:
    datasets: dict[str, skate.data.Dataset] = {"train": numbers}
    workers: dict[str, int] = {"num_workers": 2}
    TorchTrainer(loop, datasets=datasets, scaling_config=workers, metadata={"by": "me"})
    weights: dict[str, float] = {"a": 0.5}
    assert_type(Checkpoint.from_dict(weights), Checkpoint)
    skate.data.read_csv([Path("a.csv"), "b.csv"])
