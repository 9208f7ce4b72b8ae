"""MLflow and Weights & Biases follow a training run: the real things, without a network."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from wandb.proto import wandb_internal_pb2

from skate import train
from skate.air.integrations.mlflow import MLflowLoggerCallback, setup_mlflow
from skate.air.integrations.wandb import WandbLoggerCallback, setup_wandb
from skate.train import Checkpoint, DataParallelTrainer, ScalingConfig
from tests.support import eventually, offline_trackers

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the libraries about themselves
]

HEADER, WHOLE = 7, 1  # bytes, and the kind of a record that is not split


offline = pytest.fixture(autouse=True)(offline_trackers)


def fit(loop: Any, run_config: Any) -> Any:
    return DataParallelTrainer(
        loop, train_loop_config={"lr": 0.1, "net": {"layers": 2}}, run_config=run_config,
        scaling_config=ScalingConfig(num_workers=2),
    ).fit()  # fmt: skip


def mlflow_runs(place: str, experiment: str) -> list[Any]:
    client = mlflow.MlflowClient(place)
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id]))


def wandb_history(folder: Path) -> list[dict[str, Any]]:
    """What was logged, of the only run in a folder; nothing, if it is not written yet."""
    files = list(folder.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) <= 1
    rows = []
    for data in wandb_records(files[0].read_bytes() if files else b""):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        items = record.history.item
        row = {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}
        rows += [row] if row else []
    return rows


def wandb_records(content: bytes) -> Iterator[bytes]:
    """A file of less than a block: a header, then records with a checksum, length and kind. The
    last one may be in the middle of being written."""
    place = HEADER
    while place + HEADER <= len(content):
        _, length, kind = struct.unpack_from("<IHB", content, place)
        if place + HEADER + length > len(content):
            return
        assert kind == WHOLE
        yield content[place + HEADER : place + HEADER + length]
        place += HEADER + length


def test_callbacks_of_a_run(run_config, tmp_path):
    def loop():
        for number in (1, 2, 3):
            checkpoint = Checkpoint.from_dict({"number": number})
            train.report({"loss": 1 / number}, checkpoint=checkpoint)

    place = (tmp_path / "mlruns").as_uri()
    callbacks = [
        MLflowLoggerCallback(place, experiment_name="skating", save_artifact=True),
        WandbLoggerCallback("skating", upload_checkpoints=True),
    ]
    result = fit(loop, run_config(callbacks=callbacks))
    (run,) = mlflow_runs(place, "skating")
    assert run.info.status == "FINISHED"
    assert run.data.params == {"lr": "0.1", "net/layers": "2"}
    assert run.data.metrics["loss"] == pytest.approx(1 / 3)
    artifacts = mlflow.MlflowClient(place).list_artifacts(run.info.run_id)
    assert {"checkpoint_000002", "result.json"} <= {artifact.path for artifact in artifacts}
    # W&B's own process writes its file a moment after the run was finished.
    eventually(lambda: len(wandb_history(Path(result.path))) == 3)
    history = wandb_history(Path(result.path))
    assert [row["loss"] for row in history] == [1, 1 / 2, pytest.approx(1 / 3)]
    assert [row["training_iteration"] for row in history] == [1, 2, 3]


def test_logging_in_the_loop_is_done_by_rank_0(run_config, tmp_path):
    place = (tmp_path / "mlruns").as_uri()

    def loop(config):
        flow = setup_mlflow(
            config, place, experiment_name="loop", create_experiment_if_not_exists=True
        )
        run = setup_wandb(config, project="skating", dir=tmp_path)
        for number in (1, 2):
            loss = number + train.world_rank()
            flow.log_metrics({"loss": loss}, step=number)
            run.log({"loss": loss})
            train.report({"loss": loss})
        flow.end_run()
        run.finish()

    fit(loop, run_config())
    (run,) = mlflow_runs(place, "loop")
    assert run.info.status == "FINISHED"
    assert run.data.params["net/layers"] == "2"
    assert run.data.metrics["loss"] == 2
    eventually(lambda: [row["loss"] for row in wandb_history(tmp_path)] == [1, 2])
