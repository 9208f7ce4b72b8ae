"""Results in files, and what is read from them again."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import mlflow
import numpy as np
import pytest
from tensorboardX import SummaryWriter
from tensorboardX.proto import event_pb2
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

from skate._core.record_files import records_in
from skate._run.checkpoint import Checkpoint
from skate._run.loggers import default_loggers
from skate._run.loggers.comet import CometLoggerCallback
from skate._run.loggers.mlflow import MLflowLoggerCallback, setup_mlflow
from skate._run.loggers.tensorboard import events_until
from skate._run.result import Result
from skate._run.storage import Storage
from skate._run.values import indented, to_json
from skate.air.integrations.wandb import WANDB_GROUP_ENV_VAR, WandbLoggerCallback, setup_wandb


@dataclass(eq=False)
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


def _plugin_data(folder):
    """Yield what a page of TensorBoard finds in the event files of a folder."""
    for place in sorted(folder.glob("events.out.tfevents.*")):
        for record in records_in(place.read_bytes()):
            for value in event_pb2.Event.FromString(record).summary.value:
                if value.metadata.plugin_data.plugin_name == "hparams":
                    content = value.metadata.plugin_data.content
                    yield value.tag, HParamsPluginData.FromString(content)


def test_hyperparameters_on_the_page_of_tensorboard(trial, tmp_path, caplog):
    trial.evaluated_params = {
        "lr": np.float32(0.5), "n": {"layers": 2}, "big": 10**400, "bias": np.bool_(True),
        "act": "relu", "none": None, "sizes": [8, 4], "bad": (1, 2), "float128": np.float128(4),
    }  # fmt: skip
    with caplog.at_level("INFO"):
        log(default_loggers(), trial, RESULTS)
    assert "'bad': (1, 2)" in caplog.text
    found = dict(_plugin_data(tmp_path))
    values = found["_hparams_/session_start_info"].session_start_info.hparams
    assert {name: value.WhichOneof("kind") for name, value in values.items()} == {
        "lr": "number_value", "n/layers": "number_value", "big": "number_value",
        "bias": "bool_value", "act": "string_value", "sizes": "string_value",
    }  # fmt: skip
    assert (values["lr"].number_value, values["big"].number_value) == (0.5, math.inf)
    assert (values["act"].string_value, values["sizes"].string_value) == ("relu", "[8, 4]")
    experiment = found["_hparams_/experiment"].experiment
    kinds = {info.name: info.type for info in experiment.hparam_infos}
    assert kinds == {"lr": 3, "n/layers": 3, "big": 3, "bias": 2, "act": 1, "sizes": 1}
    assert "ray/tune/loss" in [info.name.tag for info in experiment.metric_infos]
    assert found["_hparams_/session_end_info"].session_end_info.status == 1


def test_hyperparameters_of_trials_that_fail_or_have_none(trial, tmp_path):
    log(default_loggers(), trial, RESULTS)
    assert not list(_plugin_data(tmp_path))
    trial.evaluated_params = {"lr": 1}
    log(default_loggers(), trial, RESULTS, failed=True)
    assert dict(_plugin_data(tmp_path))["_hparams_/session_end_info"].session_end_info.status == 2


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


@pytest.mark.filterwarnings("ignore")  # of MLflow about itself
def test_which_experiment_of_mlflow(trial, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for variable in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(variable, raising=False)
    place = (tmp_path / "mlruns").as_uri()
    client = mlflow.MlflowClient(place)
    known = client.create_experiment("known")

    def runs_of(name):
        found = client.get_experiment_by_name(name)
        return len(client.search_runs([found.experiment_id])) if found else 0

    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "of the environment")
    log([MLflowLoggerCallback(place)], trial, RESULTS)
    assert runs_of("of the environment") == 1
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", known)
    log([MLflowLoggerCallback(place)], trial, RESULTS)
    assert runs_of("known") == 1
    log([MLflowLoggerCallback(place, experiment_name="mine")], trial, RESULTS)
    assert runs_of("mine") == 1
    with pytest.raises(ValueError, match="no experiment with the id '500'"):
        setup_mlflow({}, place, experiment_id="500")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "500")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME")
    with pytest.raises(ValueError, match="no experiment with the id '500'"):
        MLflowLoggerCallback(place).setup()
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", known)
    try:
        setup_mlflow({}, place).end_run()
        setup_mlflow({}, place, experiment_id="500", experiment_name="known").end_run()
        assert runs_of("known") == 3
    finally:
        mlflow.end_run()
        mlflow.set_tracking_uri(None)


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


def test_comet(trial, monkeypatch):
    comet, config = Mock(), Mock()
    monkeypatch.setitem(sys.modules, "comet_ml", comet)
    monkeypatch.setitem(sys.modules, "comet_ml.config", config)
    logger = CometLoggerCallback(tags=["a"], log_env_cpu=True, workspace="mine")
    result = {
        "training_iteration": 1, "loss": np.float32(1), "nested": {"accuracy": 1}, "text": "a",
        "config": trial.config, "pid": 7, "trial_id": "abc", "done": False,
        "hist_stats": {"episode_reward": [1, 0]},
    }  # fmt: skip
    log([logger], trial, [result])
    gathered = {name: v for name, v in comet.Experiment.call_args.kwargs.items() if v is False}
    assert set(gathered) == {
        "auto_output_logging", "log_git_metadata", "log_git_patch", "log_env_gpu",
    }  # fmt: skip
    assert comet.Experiment.call_args.kwargs["log_env_cpu"] is True
    config.set_global_experiment.assert_called_once_with(None)
    experiment = comet.Experiment.return_value
    experiment.add_tags.assert_called_once_with(["a"])
    experiment.log_parameters.assert_any_call({"lr": 0.1, "layers/n": 2})
    experiment.log_others.assert_called_once_with({"trial_id": "abc"})
    experiment.log_system_info.assert_called_once_with("pid", 7)
    curve = {"x": range(2), "y": [1, 0], "step": 1}
    experiment.log_curve.assert_called_once_with("hist_stats/episode_reward", **curve)
    metrics = {"training_iteration": 1, "loss": 1.0, "nested/accuracy": 1, "text": "a"}
    experiment.log_metrics.assert_called_once_with(metrics, step=1)
    experiment.end.assert_called_once_with()
    logger.log_trial_start(trial)
    logger.log_trial_start(trial)
    assert comet.Experiment.call_count == 2
    logger.__del__()
    assert experiment.end.call_count == 2


def test_a_logger_for_comet_that_cannot_be_made_ends_quietly():
    CometLoggerCallback.__new__(CometLoggerCallback).__del__()


def test_functions_that_variables_name_for_wandb(trial, monkeypatch):
    import wandb

    processed = []

    def location():
        monkeypatch.setenv("WANDB_PROJECT_NAME", "of the hook")
        monkeypatch.setenv("WANDB_GROUP_NAME", "its group")

    hooks = types.ModuleType("hooks_for_wandb")
    hooks.key, hooks.location, hooks.process = lambda: "abcd", location, processed.append
    monkeypatch.setitem(sys.modules, "hooks_for_wandb", hooks)
    for variable in ("WANDB_API_KEY", "WANDB_PROJECT_NAME", "WANDB_GROUP_NAME"):
        monkeypatch.setenv(variable, "")  # so that what is set below is taken back
    monkeypatch.setenv("WANDB_SETUP_API_KEY_HOOK", "hooks_for_wandb.key")
    monkeypatch.setenv("WANDB_POPULATE_RUN_LOCATION_HOOK", "hooks_for_wandb.location")
    monkeypatch.setenv("WANDB_PROCESS_RUN_INFO_HOOK", "hooks_for_wandb.process")
    monkeypatch.setattr(wandb, "init", lambda **options: options)
    logger = WandbLoggerCallback()
    logger.setup()
    logger.log_trial_start(trial)
    assert os.environ["WANDB_API_KEY"] == "abcd"
    (run,) = processed
    assert (run["project"], run["group"]) == ("of the hook", "its group")
    assert setup_wandb(api_key="mine", project="mine") is processed[1]
    assert (os.environ["WANDB_API_KEY"], processed[1]["project"]) == ("mine", "mine")
    monkeypatch.setenv("WANDB_PROCESS_RUN_INFO_HOOK", "hooks_for_wandb.missing")
    with pytest.warns(UserWarning, match="hooks_for_wandb.missing, which WANDB_PROCESS_RUN_INFO"):
        assert setup_wandb()["project"] == "of the hook"


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
