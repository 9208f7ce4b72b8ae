"""All the paths that programs import from lead to one home."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import skate.train.torch
from skate.train import Checkpoint, Result, RunConfig, ScalingConfig
from skate.train._errors import TrainingFailedError
from tests.support import run_program

HOMES = [
    ("skate.air", "Checkpoint", Checkpoint),
    ("skate.air", "ScalingConfig", ScalingConfig),
    ("skate.air", "Result", Result),
    ("skate.air.config", "RunConfig", RunConfig),
    ("skate.air.checkpoint", "Checkpoint", Checkpoint),
    ("skate.air.result", "Result", Result),
    ("skate.air.session", "report", skate.train.report),
    ("skate.air.train.integrations.torch", "TorchTrainer", skate.train.torch.TorchTrainer),
    ("skate.train.session", "report", skate.train.report),
    ("skate.train.context", "get_context", skate.train.get_context),
    ("skate.train.base_trainer", "TrainingFailedError", TrainingFailedError),
    ("skate.train.torch.torch_trainer", "TorchTrainer", skate.train.torch.TorchTrainer),
    ("skate.train.data_parallel_trainer", "DataParallelTrainer", skate.train.DataParallelTrainer),
    ("skate.train.backend", "Backend", skate.train.Backend),
    ("skate.train.torch.config", "TorchConfig", skate.train.torch.TorchConfig),
    ("skate.train.torch.train_loop_utils", "prepare_model", skate.train.torch.prepare_model),
]


@pytest.mark.parametrize(("module", "name", "home"), HOMES)
def test_one_home(module, name, home):
    assert getattr(import_module(module), name) is home


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("skate.air", "BatchPredictor"),
        ("skate.air.predictors.integrations.torch", "TorchPredictor"),
        ("skate.train.batch_predictor", "BatchPredictor"),
        ("skate.train.predictor", "Predictor"),
        ("skate.air.predictor", "Predictor"),
        ("skate.train.callbacks", "MLflowLoggerCallback"),
        ("skate.train.torch", "TorchPredictor"),
        ("skate.air.integrations.mlflow", "MLflowLoggerCallback"),
        ("skate.air.integrations.wandb", "setup_wandb"),
        ("skate.air.callbacks.wandb", "WandbLoggerCallback"),
    ],
)
def test_paths_of_former_eras(module, name):
    assert getattr(import_module(module), name).__module__.startswith("skate.")


def test_importing_training_loads_nothing_heavy():
    code = (
        "import sys, skate.train, skate.air; "
        "print([m for m in ('torch', 'pandas', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    done = run_program([sys.executable, "-c", code], check=True)
    assert done.stdout == "[]\n"


def test_sub_packages_are_there_without_an_import_of_their_own():
    code = "import skate.train as train; print(train.torch.prepare_model.__name__)"
    done = run_program([sys.executable, "-c", code], check=True)
    assert done.stdout == "prepare_model\n"
