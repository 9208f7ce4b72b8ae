"""Callbacks that an environment variable names."""

from __future__ import annotations

import pytest

import skate
from skate import train, tune
from skate._run.environment_callbacks import callbacks_for_training, callbacks_for_tuning

HERE = __name__
told: list[object] = []


class TellsOfReports(train.UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        told.append(metrics[0]["loss"])


class TellsOfResults(tune.Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        told.append(result["loss"])


@pytest.fixture(autouse=True)
def inline():
    told.clear()
    skate.init(engine="inline", num_cpus=2)
    yield
    skate.shutdown()


def test_a_training_has_them(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TRAIN_CALLBACKS", f"{HERE}.TellsOfReports, ,{HERE}.TellsOfResults")
    train.DataParallelTrainer(
        lambda: train.report({"loss": 1}),
        scaling_config=train.ScalingConfig(num_workers=0),
        run_config=train.RunConfig(storage_path=str(tmp_path)),
    ).fit()
    assert told == [1, 1]


def test_a_search_has_them(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TUNE_CALLBACKS", f"{HERE}.TellsOfResults")
    tune.run(lambda config: tune.report({"loss": 2}), storage_path=tmp_path, verbose=0)
    assert told == [2]


def test_none(monkeypatch):
    monkeypatch.setenv("RAY_TRAIN_CALLBACKS", "  ")
    monkeypatch.delenv("RAY_TUNE_CALLBACKS", raising=False)
    assert callbacks_for_training() == callbacks_for_tuning() == []


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("TellsOfResults", ValueError),
        ("no_such_package.Callback", ImportError),
        (f"{HERE}.NoSuchClass", AttributeError),
        (f"{HERE}.TellsOfReports", TypeError),
        (f"{HERE}.told", TypeError),
    ],
)
def test_a_wrong_name_is_told_before_anything_runs(monkeypatch, path, cause):
    monkeypatch.setenv("RAY_TUNE_CALLBACKS", path)
    wanted = f"Failed to import callback from '{path}', which RAY_TUNE_CALLBACKS names"
    with pytest.raises(ValueError, match=wanted) as raised:
        callbacks_for_tuning()
    assert isinstance(raised.value.__cause__, cause)
