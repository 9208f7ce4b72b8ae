"""Trainers as trials, and callbacks of other libraries."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from skate import tune
from skate.train import ScalingConfig
from skate.train._trial import scaled
from skate.train.backend import Backend, BackendConfig
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.tune.schedulers import ASHAScheduler, ResourceChangingScheduler


def loop(config):
    from skate import train

    start = train.get_checkpoint()
    first = start.to_dict()["step"] + 1 if start else 0
    for step in range(first, 3):
        made = train.Checkpoint.from_dict({"step": step})
        size = train.get_context().get_world_size()
        train.report({"loss": config["lr"] / (step + 1), "size": size}, checkpoint=made)


def test_a_trainer_is_tuned(session, tmp_path):
    trainer = DataParallelTrainer(
        loop,
        train_loop_config={"lr": 1.0, "other": 2},
        scaling_config=ScalingConfig(num_workers=2),
    )
    grid = tune.Tuner(
        trainer,
        param_space={"train_loop_config": {"lr": tune.grid_search([1.0, 2.0])}},
        tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=ASHAScheduler(max_t=3)),
        run_config=tune.RunConfig(storage_path=tmp_path, name="search", verbose=0),
    ).fit()
    assert not grid.errors
    best = grid.get_best_result()
    assert best.config == {"train_loop_config": {"lr": 1.0}}
    assert best.metrics["size"] == 2
    assert best.checkpoint.to_dict() == {"step": 2}


def test_the_run_config_of_a_trainer_is_not_tuned():
    trainer = DataParallelTrainer(loop, train_loop_config={"lr": 1.0})
    with pytest.raises(ValueError, match="give it to the Tuner"):
        tune.Tuner(trainer, param_space={"run_config": tune.RunConfig(name="other")})


def test_a_trainer_has_the_workers_that_its_trial_has_resources_for(session, tmp_path):
    def both(controller, trial, result, scheduler):
        return tune.PlacementGroupFactory([{}, {"CPU": 1}, {"CPU": 1}])

    grid = tune.Tuner(
        DataParallelTrainer(loop, train_loop_config={"lr": 1.0}),
        tune_config=tune.TuneConfig(scheduler=ResourceChangingScheduler(None, both)),
        run_config=tune.RunConfig(storage_path=tmp_path, name="search", verbose=0),
    ).fit()
    assert not grid.errors
    assert list(grid[0].metrics_dataframe["size"]) == [1, 2, 2]


@pytest.mark.parametrize(
    ("bundles", "workers", "each"),
    [
        ([{}, {"CPU": 2}], 1, {"CPU": 2}),
        ([{"CPU": 1}, {"CPU": 2}, {"CPU": 2}], 2, {"CPU": 2}),
        ([{"CPU": 4}], 3, None),  # none are for workers
        ([{}, {"CPU": 1}, {"CPU": 1}, {"CPU": 1}], 3, None),  # as it is
    ],
)
def test_the_resources_of_a_trial_as_workers(bundles, workers, each):
    mine = ScalingConfig(num_workers=3, label_selector={"zone": "a"})
    found = scaled(mine, tune.PlacementGroupFactory(bundles))
    assert (found.num_workers, found.resources_per_worker) == (workers, each)
    assert found.label_selector == {"zone": "a"}


def test_workers_that_come_and_go_are_not_fixed():
    mine = ScalingConfig(num_workers=(1, 3))
    assert scaled(mine, tune.PlacementGroupFactory([{}, {"CPU": 1}])) is mine
    assert scaled(ScalingConfig(), None) == ScalingConfig()


def test_a_space_of_names_that_a_trainer_has_not_is_refused_before_any_trial():
    trainer = DataParallelTrainer(lambda config: None, scaling_config=ScalingConfig(num_workers=1))
    with pytest.raises(ValueError, match=r"no \['lr'\] to tune.*train_loop_config"):
        tune.Tuner(trainer, param_space={"lr": tune.uniform(0, 1)})


def test_what_a_killed_attempt_has_left_is_deleted_by_the_next(session, tmp_path):
    def failing():
        from skate import train

        left = Path(train.get_context().get_storage().path).parents[1] / "workers-left"
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            left.mkdir()
            raise RuntimeError("once")
        train.report({"left": left.exists()})

    config = tune.RunConfig(
        storage_path=tmp_path, name="search", verbose=0, failure_config={"max_failures": 1}
    )
    trainer = DataParallelTrainer(failing, scaling_config=ScalingConfig(num_workers=1))
    (result,) = tune.Tuner(trainer, run_config=config).fit()
    assert result.metrics["left"] is False
    assert not list(Path(result.path).glob("workers-*"))


def test_the_workers_of_a_killed_trial_give_their_place_to_the_next_attempt(session, tmp_path):
    killed = tmp_path / "killed"

    class Dying(Backend):
        def on_training_start(self, worker_group, backend_config):
            if not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    class DyingConfig(BackendConfig):
        backend_cls = Dying

    trainer = DataParallelTrainer(
        loop,
        train_loop_config={"lr": 1.0},
        backend_config=DyingConfig(),
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
    )
    config = tune.RunConfig(
        storage_path=tmp_path, name="search", verbose=0, failure_config={"max_failures": 1}
    )
    (result,) = tune.Tuner(trainer, run_config=config).fit()
    assert killed.exists()
    assert result.metrics["size"] == 2


def test_boosting_libraries_report(run):
    rng = np.random.default_rng(0)
    data, labels = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)

    def with_xgboost(config):
        import xgboost

        from skate.tune.integration.xgboost import TuneReportCheckpointCallback

        matrix = xgboost.DMatrix(data, labels)
        xgboost.train(
            {"objective": "binary:logistic", "nthread": 1}, matrix, 3, evals=[(matrix, "eval")],
            verbose_eval=False,
            callbacks=[TuneReportCheckpointCallback({"loss": "eval-logloss"}, frequency=2)],
        )  # fmt: skip

    def with_lightgbm(config):
        import lightgbm

        from skate.tune.integration.lightgbm import TuneReportCheckpointCallback

        dataset = lightgbm.Dataset(data, labels)
        lightgbm.train(
            {"objective": "binary", "verbose": -1, "num_threads": 1}, dataset, 3,
            valid_sets=[dataset], valid_names=["eval"],
            callbacks=[TuneReportCheckpointCallback({"loss": "eval-binary_logloss"})],
        )  # fmt: skip

    from skate.tune.integration.xgboost import TuneReportCheckpointCallback

    callback = TuneReportCheckpointCallback({"loss": "eval-logloss"}, "model.json", frequency=2)
    found = callback._metrics, callback._filename, callback._frequency
    assert found == ({"loss": "eval-logloss"}, "model.json", 2)
    for function, count in ((with_xgboost, 2), (with_lightgbm, 1)):
        trial = run(function, name=function.__name__).trials[0]
        assert 0 < trial.last_result["loss"] < 1
        assert len(trial.get_best_checkpoints()) == count


@pytest.mark.filterwarnings("ignore")
def test_lightning_reports(run):
    def with_lightning(config):
        import lightning.pytorch as lightning
        import torch

        from skate.tune.integration.pytorch_lightning import TuneReportCheckpointCallback

        with pytest.raises(ValueError, match="'sometimes'"):
            TuneReportCheckpointCallback(on="sometimes")

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)

            def training_step(self, batch, index):
                return self.layer(batch[0]).square().mean()

            def validation_step(self, batch, index):
                self.log("val_loss", self.layer(batch[0]).square().mean())

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.randn(8, 2)), batch_size=4
        )
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
            callbacks=[TuneReportCheckpointCallback({"loss": "val_loss"}, filename="model.ckpt")],
        )  # fmt: skip
        trainer.fit(Model(), loader, loader)

    trial = run(with_lightning).trials[0]
    assert trial.last_result["training_iteration"] == 2
    assert len(trial.get_best_checkpoints()) == 2


def test_keras_reports(run):
    def with_keras(config):
        import keras

        from skate.tune.integration.keras import TuneReportCallback, TuneReportCheckpointCallback

        def fit(epochs, callback):
            model.fit(data, data[:, :1], epochs=epochs, verbose=0, callbacks=[callback])

        with pytest.raises(ValueError, match="'epoch_ended_end' is no event of Keras"):
            TuneReportCheckpointCallback("epoch_ended_end")
        with pytest.raises(ValueError, match=r"one for each of \['epoch_end'\]; got \[1, 2\]"):
            TuneReportCheckpointCallback(frequency=[1, 2])
        data = np.ones((4, 2), "float32")
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        fit(3, TuneReportCheckpointCallback({"older": "loss"}, "net", 2))
        fit(1, TuneReportCheckpointCallback(metrics="loss", filename="a.h5", on=["epoch_end"]))
        fit(1, TuneReportCallback(["loss"]))
        fit(2, TuneReportCheckpointCallback("train_end", "epoch_end", {"last": "loss"}))

    trial = run(with_keras).trials[0]
    assert trial.last_result["training_iteration"] == 8
    assert {"older", "last"} <= trial.metric_analysis.keys()
    kept = [checkpoint for checkpoint, _ in trial.get_best_checkpoints()]
    for checkpoint, name in zip(kept, ["net.keras", "a.h5", "model.keras"], strict=True):
        assert name in os.listdir(checkpoint.path)
        assert checkpoint.get_metadata() == {"_model_filename": name, "_keras": "keras"}


def test_a_boosted_model_is_there_when_a_scheduler_stops_its_trial(run):
    matrix_of = np.random.default_rng(0).normal(size=(40, 3))

    def boosted(config):
        import xgboost

        from skate.tune.integration.xgboost import TuneReportCheckpointCallback

        matrix = xgboost.DMatrix(matrix_of, matrix_of[:, 0] > 0)
        xgboost.train(
            {"objective": "binary:logistic", "nthread": 1}, matrix, evals=[(matrix, "eval")],
            verbose_eval=False, callbacks=[TuneReportCheckpointCallback(filename="model.json")],
        )  # fmt: skip

    trial = run(boosted, stop={"training_iteration": 7}).trials[0]
    assert trial.last_result["training_iteration"] == 7
    with trial.checkpoint.as_directory() as folder:
        assert os.listdir(folder) == ["model.json"]


def test_results_of_cross_validation_are_put_together(run):
    data = np.random.default_rng(0).normal(size=(40, 3))

    def validated(config):
        import xgboost

        from skate.tune.integration.xgboost import TuneReportCallback

        averaged = TuneReportCallback(
            results_postprocessing_fn=lambda found: {k: np.mean(v) for k, v in found.items()}
        )
        matrix = xgboost.DMatrix(data, data[:, 0] > 0)
        objective = {"objective": "binary:logistic", "nthread": 1}
        xgboost.cv(objective, matrix, 2, callbacks=[averaged], stratified=True)

    trial = run(validated).trials[0]
    assert 0 < trial.last_result["test-logloss"] < 1
    assert trial.checkpoint is None
