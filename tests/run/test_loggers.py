"""Results in files, and what is read from them again."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from tensorboardX import SummaryWriter
from tensorboardX.proto import event_pb2

from skate._core.record_files import records_in
from skate._run.checkpoint import Checkpoint
from skate._run.loggers import default_loggers
from skate._run.loggers.mlflow import MLflowLoggerCallback
from skate._run.loggers.tensorboard import events_until
from skate._run.result import Result
from skate._run.storage import Storage
from skate._run.values import indented, to_json
from skate.air.integrations.wandb import WANDB_GROUP_ENV_VAR, WandbLoggerCallback, setup_wandb


@dataclass
class Trial:
    local_path: str
    trial_id: str = "abc"
    config: dict[str, Any] = field(default_factory=lambda: {"lr": 0.1, "layers": {"n": 2}})
    checkpoint: Any = None


def log(loggers, trial, results, failed=False):
    for logger in loggers:
        logger.setup()
        for number, result in enumerate(results):
            logger.on_trial_result(number, [trial], trial, result)
        end = logger.on_trial_error if failed else logger.on_trial_complete
        end(len(results), [trial], trial)


RESULTS = [
    {"training_iteration": n, "loss": np.float32(1 / n), "nested": {"accuracy": n}, "text": "a"}
    for n in (1, 2, 3)
]


@pytest.fixture
def trial(tmp_path):
    return Trial(str(tmp_path))


def test_files_of_a_run(trial, tmp_path):
    log(default_loggers(), trial, RESULTS)
    assert json.loads((tmp_path / "params.json").read_text()) == trial.config
    lines = [json.loads(line) for line in (tmp_path / "result.json").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [float(r["loss"]) for r in RESULTS]
    with open(tmp_path / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["nested/accuracy"] for row in rows] == ["1", "2", "3"]


def test_what_stands_for_a_trial_may_know_its_folder_by_the_older_name(tmp_path):
    @dataclass
    class Older:
        logdir: str
        trial_id: str = "abc"
        config: dict[str, Any] = field(default_factory=dict)

    log(default_loggers(), Older(str(tmp_path)), RESULTS)
    assert {"result.json", "progress.csv"} <= {path.name for path in tmp_path.iterdir()}


def test_tensorboard_reads_the_events(trial, tmp_path):
    log(default_loggers(), trial, RESULTS)
    (place,) = tmp_path.glob("events.out.tfevents.*")
    events = [event_pb2.Event.FromString(record) for record in records_in(place.read_bytes())]
    assert events[0].file_version == "brain.Event:2"
    curve = [
        (event.step, value.simple_value)
        for event in events[1:]
        for value in event.summary.value
        if value.tag == "ray/tune/loss"
    ]
    assert curve == [(r["training_iteration"], float(r["loss"])) for r in RESULTS]


def _losses(data):
    events = [event_pb2.Event.FromString(record) for record in records_in(data)]
    return [
        (event.step, value.simple_value)
        for event in events
        for value in event.summary.value
        if value.tag.endswith("loss")
    ]


def test_events_after_a_step_are_taken_back_and_those_of_others_stay(trial, tmp_path):
    log(default_loggers(), trial, RESULTS)
    (place,) = tmp_path.glob("events.out.tfevents.*")
    whole = place.read_bytes()
    mine = [(r["training_iteration"], float(r["loss"])) for r in RESULTS]
    assert _losses(events_until(whole, 2)) == mine[:2]
    assert _losses(events_until(whole[:-30], 3)) == mine[:2]
    assert events_until(whole, 3) == whole
    with SummaryWriter(str(tmp_path / "theirs")) as writer:
        writer.add_scalar("loss", 7.0, 300)
    (theirs,) = (tmp_path / "theirs").iterdir()
    assert _losses(events_until(theirs.read_bytes() + whole, 1)) == [(300, 7.0), mine[0]]


def test_files_go_on_after_a_crash_that_cut_them(trial, tmp_path):
    log(default_loggers(), trial, RESULTS[:2])
    for name in ("result.json", "progress.csv"):
        place = tmp_path / name
        place.write_bytes(place.read_bytes()[:-5])
    log(default_loggers(), trial, RESULTS[2:])
    assert [row["loss"] for row in Storage.at(tmp_path).lines("result.json")] == [
        float(RESULTS[0]["loss"]),
        float(RESULTS[2]["loss"]),
    ]
    with open(tmp_path / "progress.csv") as file:
        assert [row["training_iteration"] for row in csv.DictReader(file)] == ["1", "3"]


def test_a_result_from_its_folder(trial, tmp_path):
    storage = Storage.at(tmp_path)
    for number, result in enumerate(RESULTS):
        storage.persist(Checkpoint.from_dict({"n": number}), f"checkpoint_{number:06d}")
        result["checkpoint_dir_name"] = f"checkpoint_{number:06d}"
    storage.draft("checkpoint_000003").write("half", b"")
    log(default_loggers(), trial, RESULTS)
    result = Result.from_path(tmp_path)
    assert result.metrics["training_iteration"] == 3
    assert result.checkpoint.to_dict() == {"n": 2}
    assert [c.to_dict()["n"] for c, _ in result.best_checkpoints] == [0, 1, 2]
    assert result.get_best_checkpoint("loss", "max").to_dict() == {"n": 0}
    result.best_checkpoints.insert(0, (Checkpoint.from_dict({"n": "bad"}), {"loss": math.nan}))
    assert result.get_best_checkpoint("loss", "max").to_dict() == {"n": 0}
    assert list(result.metrics_dataframe["nested/accuracy"]) == [1, 2, 3]
    assert result.plot("loss").get_lines()[0].get_ydata()[0] == 1
    with pytest.raises(ValueError, match="accuracy"):
        result.plot("no_such_metric")


def test_no_result_in_a_folder_of_something_else(tmp_path):
    with pytest.raises(RuntimeError, match=r"restore the Result object: result\.json") as refused:
        Result.from_path(tmp_path)
    assert "output directory created by a Ray Train run" in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    with pytest.raises(RuntimeError, match="doesn't exist"):
        Result.from_path(tmp_path / "none")


@pytest.mark.filterwarnings("ignore")  # of MLflow about itself
def test_mlflow(trial, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    place = (tmp_path / "mlruns").as_uri()
    logger = MLflowLoggerCallback(place, experiment_name="skating", tags={"who": "me"})
    log([logger], trial, RESULTS, failed=True)
    client = mlflow.MlflowClient(place)
    experiment = client.get_experiment_by_name("skating")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.params == {"lr": "0.1", "layers/n": "2"}
    assert run.data.metrics["nested/accuracy"] == 3
    assert run.data.tags["who"] == "me"
    assert run.info.status == "FAILED"


def test_wandb(trial, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    started = []

    class Run:
        def __init__(self, options):
            self.options, self.logged, self.exit_code = options, [], None

        def log(self, values):
            self.logged.append(values)

        def finish(self, exit_code):
            self.exit_code = exit_code

    import wandb

    monkeypatch.setattr(wandb, "init", lambda **o: started.append(Run(o)) or started[-1])
    log([WandbLoggerCallback("skating", excludes=["text"])], trial, RESULTS)
    (run,) = started
    assert run.options["project"] == "skating"
    assert run.options["config"] == {"lr": 0.1, "layers/n": 2}
    assert [values["nested/accuracy"] for values in run.logged] == [1, 2, 3]
    assert "text" not in run.logged[0]
    assert run.exit_code == 0
    assert run.options["group"] is None
    monkeypatch.setenv(WANDB_GROUP_ENV_VAR, "skaters")
    log([WandbLoggerCallback("skating")], trial, RESULTS)
    setup_wandb()
    setup_wandb(group="others")
    assert [run.options["group"] for run in started[1:]] == ["skaters", "skaters", "others"]


def test_a_logger_of_ones_own(trial):
    from skate._run.loggers import LoggerCallback

    seen = []

    class Mine(LoggerCallback):
        def __init__(self):  # without super, as many do
            pass

        def log_trial_start(self, trial):
            seen.append("start")

        def log_trial_result(self, iteration, trial, result):
            seen.append(result["training_iteration"])

        def log_trial_end(self, trial, failed=False):
            seen.append(failed)

    log([Mine()], trial, RESULTS)
    assert seen == ["start", 1, 2, 3, False]
    assert Path(trial.local_path).exists()


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"lr": 0.1},
        {"b": 1, "a": "x, y: {z}", "é": None, "on": True, "nan": float("inf")},
        {"layers": [1, 2], "inner": {"b": {}, "a": 1}},
        {"b": np.float64(0.5), "a": {1, 2}},
        {1: "one", 2: "two"},
    ],
)
def test_configurations_are_indented_as_the_standard_library_does_it(config):
    assert indented(config) == to_json(config, indent=2, sort_keys=True)
