"""Training with TensorFlow on two workers, with the real thing."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import skate
import skate.data
from skate import train
from skate.predict import BatchPredictor, TensorflowPredictor
from skate.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from skate.train.tensorflow import TensorflowCheckpoint, TensorflowTrainer, prepare_dataset_shard
from tests.leftovers import Picture, leftovers_since
from tests.support import run_program
from tests.train.ports import listening

pytestmark = [
    pytest.mark.leaves("one session for the whole file: importing TensorFlow takes seconds"),
    pytest.mark.filterwarnings("ignore:__array__ implementation"),  # Keras 3 with NumPy 2
]


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    before = Picture.take()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        skate.init(engine="local", num_cpus=2)
        yield
        skate.shutdown()
    assert not leftovers_since(before)


def settings(folder: Path, workers: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "scaling_config": ScalingConfig(num_workers=workers),
        "run_config": RunConfig(storage_path=str(folder), **more),
    }


def line_model() -> Any:
    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    return model


def sums(count: int) -> Any:
    rows = np.random.default_rng(0).random((count, 3)).astype(np.float32)
    return skate.data.from_items([{"x": row, "y": row.sum(keepdims=True)} for row in rows])


def fit_line(config: dict[str, Any]) -> list[float]:
    from skate.train.tensorflow.keras import ReportCheckpointCallback

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == train.get_context().get_world_size()
    tf.keras.utils.set_random_seed(0)
    with strategy.scope():
        model = line_model()
    shard = train.get_dataset_shard("train").to_tf("x", "y", batch_size=8)
    callback = ReportCheckpointCallback(metrics={"error": "loss"})
    model.fit(
        prepare_dataset_shard(shard), epochs=config["epochs"], verbose=0, callbacks=[callback]
    )
    return [float(value) for value in np.ravel(model.get_weights()[0])]


def test_two_workers_train_one_model(tmp_path: Path) -> None:
    trainer = TensorflowTrainer(
        fit_line, train_loop_config={"epochs": 4}, datasets={"train": sums(128)},
        **settings(tmp_path),
    )  # fmt: skip
    result = trainer.fit()
    assert result.metrics is not None
    assert result.checkpoint is not None
    errors = list(result.metrics_dataframe["error"])
    assert result.metrics["training_iteration"] == 4
    assert errors[-1] < errors[0] / 2
    batches = skate.data.from_items([{"x": np.full(3, n, np.float32)} for n in (0.2, 0.5)])
    predictor = BatchPredictor.from_checkpoint(result.checkpoint, TensorflowPredictor)
    predicted = np.ravel(list(predictor.predict(batches).to_pandas()["predictions"]))
    model = TensorflowCheckpoint.from_checkpoint(result.checkpoint).get_model()
    expected = model.predict(np.array([[0.2] * 3, [0.5] * 3], np.float32), verbose=0)
    np.testing.assert_allclose(predicted, np.ravel(expected), rtol=1e-4)


def count_and_die_once(config: dict[str, Any]) -> None:
    """One epoch per report. Rank 1 is killed in its third, the first time."""
    context = train.get_context()
    done = train.get_checkpoint()
    start, total = (0, 0.0) if done is None else done.to_dict()["state"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    for epoch in range(start, 4):
        marker = Path(config["marker"])
        if epoch == 2 and context.get_world_rank() == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        mine = strategy.run(lambda: tf.constant(float(context.get_world_rank() + 1)))
        total += float(strategy.reduce("SUM", mine, axis=None))
        checkpoint = Checkpoint.from_dict({"state": (epoch + 1, total)})
        train.report({"epoch": epoch, "total": total, "start": start}, checkpoint=checkpoint)


def test_a_killed_worker_is_replaced_and_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    trainer = TensorflowTrainer(
        count_and_die_once,
        train_loop_config={"marker": str(tmp_path / "killed")},
        **settings(tmp_path, failure_config=FailureConfig(max_failures=1)),
    )
    result = trainer.fit()
    assert (tmp_path / "killed").exists()
    assert result.metrics is not None
    assert result.metrics["start"] == 2
    assert result.metrics["total"] == 4 * (1 + 2)
    assert list(result.metrics_dataframe["epoch"]) == [0, 1, 2, 3]


def report_surroundings() -> None:
    from tensorflow.keras import layers

    before = listening()
    tf.distribute.MultiWorkerMirroredStrategy()
    train.report(
        {
            "before": before,
            "listening": listening(),
            "tf_config": os.environ["TF_CONFIG"],
            "attribute": tf.keras.layers.Dense.__module__,
            "module": layers.Dense.__module__,
        }
    )


@pytest.fixture(scope="module")
def surroundings(session: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("surroundings")
    result = TensorflowTrainer(report_surroundings, **settings(folder, workers=1)).fit()
    assert result.metrics is not None
    return result.metrics


def test_what_a_worker_finds(surroundings: dict[str, Any]) -> None:
    assert '"task": {"type": "worker", "index": 0}' in surroundings["tf_config"]
    assert surroundings["attribute"] == surroundings["module"]
    assert surroundings["module"].startswith("tf_keras.")


def test_a_worker_listens_on_all_interfaces_at_one_port(surroundings: dict[str, Any]) -> None:
    """As docs/training.md says: TensorFlow takes of an address its port only. One that can be
    told to listen on loopback alone would be better, and fails here."""
    assert surroundings["before"] == {"loopback": [], "elsewhere": []}
    (address,) = json.loads(surroundings["tf_config"])["cluster"]["worker"]
    (where,) = surroundings["listening"]["elsewhere"]
    interface, port = where.split(":")
    assert set(interface) == {"0"}
    assert address == f"127.0.0.1:{int(port, 16)}"
    assert surroundings["listening"]["loopback"] == []


def test_weights_in_a_checkpoint_need_the_model() -> None:
    model = line_model()
    checkpoint = Checkpoint.from_dict({"model": model.get_weights()})
    frame = pd.DataFrame({"x": [np.ones(3, np.float32)] * 2})
    predictor = TensorflowPredictor.from_checkpoint(checkpoint, model_definition=line_model)
    expected = model.predict(np.ones((2, 3)), verbose=0)
    np.testing.assert_allclose(
        np.stack(list(predictor.predict(frame)["predictions"])), expected, rtol=1e-5
    )
    with pytest.raises(ValueError, match="model_definition"):
        TensorflowPredictor.from_checkpoint(checkpoint)


# -- tuning --------------------------------------------------------------------------------------


def fit_with_rate(config: dict[str, Any]) -> None:
    from skate.train.tensorflow.keras import ReportCheckpointCallback

    tf.keras.utils.set_random_seed(0)  # the rates begin alike
    model = line_model()
    model.optimizer.learning_rate = config["rate"]
    inputs = np.random.default_rng(0).random((64, 3))
    targets = inputs.sum(axis=1, keepdims=True)
    callback = ReportCheckpointCallback(metrics={"error": "loss"})
    model.fit(inputs, targets, epochs=3, verbose=0, callbacks=[callback])


def test_tuning_finds_the_rate_that_learns(tmp_path: Path) -> None:
    from skate import tune

    tuner = tune.Tuner(
        fit_with_rate,
        param_space={"rate": tune.grid_search([1e-6, 0.2])},
        tune_config=tune.TuneConfig(metric="error", mode="min"),
        run_config=RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    best = tuner.fit().get_best_result()
    assert best.config == {"rate": 0.2}
    assert best.metrics is not None
    assert best.metrics["training_iteration"] == 3
    assert best.checkpoint is not None
    model = TensorflowCheckpoint.from_checkpoint(best.checkpoint).get_model()
    assert model.count_params() == 4


# -- in this process -----------------------------------------------------------------------------


def fit_here(config: dict[str, Any]) -> None:
    from skate.air.integrations.keras import ReportCheckpointCallback

    model = line_model()
    data = tf.data.Dataset.from_tensor_slices((np.ones((16, 3)), np.ones((16, 1)))).batch(8)
    callback = ReportCheckpointCallback(**config)
    shard = prepare_dataset_shard(data)
    model.fit(shard, epochs=2, verbose=0, shuffle=False, callbacks=[callback])


def test_what_and_when_keras_reports(tmp_path: Path) -> None:
    def run(**config: Any) -> Any:
        return TensorflowTrainer(
            fit_here, train_loop_config=config, **settings(tmp_path, workers=0)
        ).fit()

    result = run(report_metrics_on="train_batch_end", checkpoint_on="train_end", metrics="loss")
    assert len(result.metrics_dataframe) == 2 * 2 + 1
    model = TensorflowCheckpoint.from_checkpoint(result.checkpoint).get_model()
    assert [w.shape for w in model.get_weights()] == [(3, 1), (1,)]
    with pytest.raises(train.TrainingFailedError, match=r"no \['mae'\] here; it has \['loss'\]"):
        run(metrics=["loss", "mae"])
    with pytest.raises(train.TrainingFailedError, match="'epoch_over' is no event of Keras"):
        run(checkpoint_on="epoch_over")


def test_the_callback_of_an_earlier_era(tmp_path: Path) -> None:
    from skate.air.integrations.keras import Callback

    def loop() -> None:
        callback = Callback(metrics=["loss"], on=["epoch_end", "train_end"], frequency=[2, 0])
        model, data = line_model(), (np.ones((8, 3)), np.ones((8, 1)))
        model.fit(*data, epochs=3, verbose=0, callbacks=[callback])

    result = TensorflowTrainer(loop, **settings(tmp_path, workers=0)).fit()
    assert len(result.metrics_dataframe) == 3 + 1
    assert result.best_checkpoints is not None
    ((checkpoint, metrics),) = result.best_checkpoints
    assert metrics["training_iteration"] == 2
    assert [w.shape for w in checkpoint.to_dict()["model"]] == [(3, 1), (1,)]
    with pytest.raises(ValueError, match=r"one for each of \['epoch_end'\]; got \[1, 2\]"):
        Callback(frequency=[1, 2])


def test_models_in_checkpoints(tmp_path: Path) -> None:
    model = line_model()
    weights = np.ravel(model.get_weights()[0]).tolist()

    def same(checkpoint: Checkpoint) -> bool:
        found = TensorflowCheckpoint.from_checkpoint(checkpoint).get_model(line_model)
        return bool(np.ravel(found.get_weights()[0]).tolist() == weights)

    fitted: Any = "fitted"
    whole = TensorflowCheckpoint.from_model(model, preprocessor=fitted)
    assert same(whole)
    assert whole.get_preprocessor() == "fitted"
    assert same(Checkpoint.from_directory(whole.path))
    assert same(Checkpoint.from_dict({"model": model.get_weights()}))
    assert same(Checkpoint.from_dict({"model": model}))
    assert same(Checkpoint.from_dict(whole.to_dict()))
    assert same(Checkpoint.from_bytes(whole.to_bytes()))
    model.save_weights(tmp_path / "line.weights.h5")
    assert same(Checkpoint.from_directory(tmp_path))
    with pytest.raises(ValueError, match="only weights"):
        TensorflowCheckpoint.from_directory(tmp_path).get_model()
    model.save(tmp_path / "line.keras")
    assert same(Checkpoint.from_directory(tmp_path))
    with pytest.raises(ValueError, match=r"ends with \.h5"):
        TensorflowCheckpoint.from_h5(tmp_path / "line.keras")
    with pytest.raises(ValueError, match="takes a folder"):
        TensorflowCheckpoint.from_saved_model(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match=r"none\.h5"):
        TensorflowCheckpoint.from_h5(tmp_path / "none.h5")
    with pytest.raises(ValueError, match=r"no model in this checkpoint: it has \['weights'\]"):
        TensorflowCheckpoint.from_dict({"weights": 1}).get_model()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"it has \['notes\.txt'\]"):
        TensorflowCheckpoint.from_directory(tmp_path / "other").get_model()
    with pytest.raises(TypeError, match="got str"):
        TensorflowCheckpoint.from_model("model")


def test_the_program_that_trains_need_not_import_tensorflow() -> None:
    program = (
        "import sys, skate.train.tensorflow, skate.train\n"
        "skate.train.tensorflow.TensorflowTrainer(print)\n"
        "assert 'tensorflow' not in sys.modules"
    )
    done = run_program([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr


def test_a_saved_model_goes_with_its_checkpoint() -> None:
    checkpoint = TensorflowCheckpoint.from_model(line_model())
    place = Path(checkpoint.path)
    assert (place / "model.keras").is_file()
    del checkpoint
    assert not place.exists()


def test_an_exported_model_answers_alike(tmp_path: Path) -> None:
    model, inputs = line_model(), np.ones((2, 3), np.float32)
    model.export(tmp_path / "exported", verbose=False)
    tf.saved_model.save(model, str(tmp_path / "saved"))
    expected = model.predict(inputs, verbose=0)
    for name in ("exported", "saved"):
        read = TensorflowCheckpoint.from_saved_model(tmp_path / name).get_model()
        found = read(inputs)
        (answer,) = found.values() if isinstance(found, dict) else [found]
        np.testing.assert_allclose(answer, expected, rtol=1e-5)
