"""MLflow and Weights & Biases of trials, by decorator and by base class: without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import pytest
import wandb

from skate import tune
from skate.tune.integration.mlflow import MLflowTrainableMixin, mlflow_mixin
from skate.tune.integration.wandb import WandbTrainableMixin, wandb_mixin
from tests.support import offline_trackers

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.filterwarnings("ignore"),  # of the libraries about themselves
]


offline = pytest.fixture(autouse=True)(offline_trackers)


@mlflow_mixin
def loses(config: dict[str, Any]) -> None:
    mlflow.log_metric("loss", config["x"])
    tune.report(loss=config["x"])


class Loses(MLflowTrainableMixin, tune.Trainable):
    def step(self) -> dict[str, Any]:
        mlflow.log_metric("loss", self.config["x"])
        return {"loss": self.config["x"], "done": True}


@pytest.mark.parametrize("trainable", [loses, Loses])
def test_each_trial_has_an_mlflow_run(session: None, trainable: Any, tmp_path: Path) -> None:
    place = f"file:{tmp_path}/mlruns"
    client = mlflow.MlflowClient(place)
    experiment = client.create_experiment("skating")
    tune.run(
        trainable,
        config={
            "x": tune.grid_search([1, 2]),
            "mlflow": {"tracking_uri": place, "experiment_name": "skating"},
        },
        verbose=0,
        local_dir=str(tmp_path),
    )
    runs = client.search_runs([experiment])
    assert sorted(run.data.metrics["loss"] for run in runs) == [1, 2]
    assert {run.info.status for run in runs} == {"FINISHED"}


@wandb_mixin
def logs(config: dict[str, Any]) -> None:
    wandb.log({"loss": config["x"]})
    tune.report(loss=config["x"])


class Logs(WandbTrainableMixin, tune.Trainable):
    def step(self) -> dict[str, Any]:
        wandb.log({"loss": self.config["x"]})
        return {"loss": self.config["x"], "done": True}


@pytest.mark.parametrize("trainable", [logs, Logs])
def test_a_trial_has_a_wandb_run(session: None, trainable: Any, tmp_path: Path) -> None:
    config = {"x": 1, "wandb": {"project": "skating", "dir": str(tmp_path)}}
    analysis = tune.run(trainable, config=config, verbose=0, local_dir=str(tmp_path))
    assert analysis.trials[0].last_result["loss"] == 1
    assert len(list(tmp_path.glob("wandb/offline-run-*/*.wandb"))) == 1


def test_settings_that_are_missing() -> None:
    with pytest.raises(ValueError, match=r"'tracking_uri' for mlflow.*got \['x'\]"):
        loses({"x": 1})
    with pytest.raises(ValueError, match=r"'project' for wandb.*'wandb': {'dir': 'a'}"):
        logs({"wandb": {"dir": "a"}})
    with pytest.raises(ValueError, match="no Trainable: write class Alone"):
        type("Alone", (MLflowTrainableMixin,), {})({})
