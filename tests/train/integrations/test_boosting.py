"""XGBoost and LightGBM on the workers of a trainer, with the real things."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost

import skate.data
from skate import train, tune
from skate._run.context import SessionInfo, TrainContext
from skate.data.preprocessors import StandardScaler
from skate.predict import BatchPredictor, LightGBMPredictor, XGBoostPredictor
from skate.train import CheckpointConfig, FailureConfig, ScalingConfig
from skate.train.lightgbm import (
    LightGBMCheckpoint,
    LightGBMTrainer,
    get_network_params,
    normalize_pandas_for_lightgbm,
)
from skate.train.lightgbm import RayTrainReportCallback as LightGBMReports
from skate.train.xgboost import RayTrainReportCallback as XGBoostReports
from skate.train.xgboost import XGBoostCheckpoint, XGBoostConfig, XGBoostTrainer

XGBOOST: dict[str, Any] = {"objective": "reg:squarederror", "max_depth": 2, "nthread": 1}
LIGHTGBM: dict[str, Any] = {
    "objective": "l2", "num_leaves": 4, "min_data_in_leaf": 5, "num_threads": 1, "verbosity": -1
}  # fmt: skip
TWO = ScalingConfig(num_workers=2)

both = pytest.mark.parametrize(
    ("trainer", "params", "metric"),
    [(XGBoostTrainer, XGBOOST, "valid-rmse"), (LightGBMTrainer, LIGHTGBM, "valid-l2")],
    ids=["xgboost", "lightgbm"],
)


def frame(count: int, seed: int = 0) -> pd.DataFrame:
    table = pd.DataFrame(np.random.default_rng(seed).random((count, 3)), columns=list("abc"))
    table["y"] = table.sum(axis=1)
    return table


def datasets() -> dict[str, Any]:
    return {
        "train": skate.data.from_pandas(frame(100)),
        "valid": skate.data.from_pandas(frame(30, seed=1)),
    }


def rounds(model: Any) -> int:
    count = model.num_boosted_rounds if hasattr(model, "num_boosted_rounds") else None
    return int(count() if count else model.current_iteration())


@both
def test_without_a_loop(run_config, trainer, params, metric):
    settings = {
        "params": params, "label_column": "y", "scaling_config": TWO,
        "preprocessor": StandardScaler(["a", "b"]),
    }  # fmt: skip
    checkpoints = CheckpointConfig(checkpoint_frequency=2)
    first = trainer(
        num_boost_round=5, datasets=datasets(),
        run_config=run_config(checkpoint_config=checkpoints), **settings,
    ).fit()  # fmt: skip
    assert rounds(trainer.get_model(first.checkpoint)) == 5
    assert len(first.best_checkpoints) == 3  # after 2, 4 and all rounds
    curve = first.metrics_dataframe[metric]
    assert curve.iloc[-1] < curve.iloc[0]
    assert first.checkpoint.get_preprocessor().columns == ["a", "b"]

    longer = trainer(
        num_boost_round=8, datasets=datasets(), resume_from_checkpoint=first.checkpoint,
        run_config=run_config(name="longer"), **settings,
    ).fit()  # fmt: skip
    assert rounds(trainer.get_model(longer.checkpoint)) == 8
    assert longer.metrics[metric] < first.metrics[metric]


def test_a_run_that_stops_early_has_its_model(run_config):
    stop = lightgbm.early_stopping(1, min_delta=1e9, verbose=False)
    result = LightGBMTrainer(
        params={"objective": "l2"}, label_column="y", num_boost_round=9, datasets=datasets(),
        callbacks=[stop], scaling_config={"num_workers": 0}, run_config=run_config(),
    ).fit()  # fmt: skip
    assert result.metrics["training_iteration"] < 9
    assert 0 < rounds(LightGBMTrainer.get_model(result.checkpoint)) < 9


def xgboost_loop(config: dict[str, Any]) -> tuple[int, str]:
    part = train.get_dataset_shard("train").materialize().to_pandas()
    table = xgboost.DMatrix(part.drop(columns="y"), label=part["y"])
    callbacks = [*config.get("callbacks", ()), XGBoostReports(frequency=1)]
    model = xgboost.train(
        XGBOOST, table, evals=[(table, "train")], num_boost_round=4, callbacks=callbacks,
        verbose_eval=False,
    )  # fmt: skip
    return len(part), model.save_raw("json").decode()


def lightgbm_loop(config: dict[str, Any]) -> tuple[int, str]:
    part = train.get_dataset_shard("train").materialize().to_pandas()
    table = lightgbm.Dataset(part.drop(columns="y"), label=part["y"])
    params = {
        **LIGHTGBM, "tree_learner": "data_parallel", "pre_partition": True, **get_network_params()
    }  # fmt: skip
    model = lightgbm.train(
        params, table, num_boost_round=4, valid_sets=[table], valid_names=["train"],
        callbacks=[LightGBMReports({"error": "train-l2"})],
    )  # fmt: skip
    return len(part), model.model_to_string().partition("\nparameters:")[0]


@pytest.mark.parametrize(
    ("trainer", "loop", "metric", "model_in"),
    [
        (XGBoostTrainer, xgboost_loop, "train-rmse", XGBoostReports.get_model),
        (LightGBMTrainer, lightgbm_loop, "error", LightGBMReports.get_model),
    ],
    ids=["xgboost", "lightgbm"],
)
def test_workers_build_one_model_of_all_their_data(run_config, trainer, loop, metric, model_in):
    """A model of half of the rows would split elsewhere than the checkpoint's, which must be
    the one that each rank has."""
    seen: list[Any] = []

    class Watch(train.UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            seen.append([entry[metric] for entry in metrics])

    result = trainer(
        loop, train_loop_config={}, datasets={"train": skate.data.from_pandas(frame(100))},
        scaling_config=TWO, run_config=run_config(callbacks=[Watch()]),
    ).fit()  # fmt: skip
    rows, text = result.return_value
    assert rows == 50
    assert rounds(model_in(result.checkpoint)) == 4
    counts = [float(n) for n in root_counts(text)]
    assert counts == [100] * 4
    assert len(seen) == 4


def root_counts(model: str) -> list[str]:
    """How many rows each tree was built of."""
    if model.startswith("{"):
        import json

        trees = json.loads(model)["learner"]["gradient_booster"]["model"]["trees"]
        return [tree["sum_hessian"][0] for tree in trees]
    return [
        line.partition("=")[2].split()[0]
        for line in model.splitlines()
        if line.startswith("internal_count=")
    ]


def test_a_worker_is_killed_in_the_middle(run_config, tally):
    class Killer(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 2 and train.world_rank() == 1 and len(tally) == 0:
                tally.add()
                os.kill(os.getpid(), signal.SIGKILL)
            return False

    result = XGBoostTrainer(
        params=XGBOOST, label_column="y", num_boost_round=5, callbacks=[Killer()],
        datasets=datasets(), scaling_config=TWO,
        run_config=run_config(
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=1),
        ),
    ).fit()  # fmt: skip
    assert len(tally) == 1
    assert rounds(XGBoostTrainer.get_model(result.checkpoint)) == 5
    assert list(result.metrics_dataframe["training_iteration"]) == [1, 2, 3, 4, 5]


def test_parameters_are_tuned(run_config):
    trainer = XGBoostTrainer(
        params={**XGBOOST, "eta": 0.1}, label_column="y", num_boost_round=2, datasets=datasets(),
        scaling_config=ScalingConfig(num_workers=1),
    )  # fmt: skip
    found = tune.Tuner(
        trainer,
        param_space={"params": {"eta": tune.grid_search([0.1, 0.9])}},
        tune_config=tune.TuneConfig(metric="valid-rmse", mode="min"),
        run_config=run_config(),
    ).fit()
    assert found.get_best_result().config["params"]["eta"] == 0.9
    assert trainer.params["eta"] == 0.1


@both
def test_models_are_saved_as_a_search_says(run_config, trainer, params, metric):
    own = trainer(
        params=params, label_column="y", num_boost_round=4, datasets=datasets(),
        scaling_config=ScalingConfig(num_workers=1),
    )  # fmt: skip
    keep = CheckpointConfig(checkpoint_frequency=1, checkpoint_at_end=True)
    (found,) = tune.Tuner(own, run_config=run_config(checkpoint_config=keep)).fit()
    assert len(found.best_checkpoints) == 4


def test_what_a_search_says_about_saving_is_its_own(tmp_path):
    own = XGBoostTrainer(params=XGBOOST, label_column="y", datasets=datasets()).as_trainable()

    def frequency(**said: Any) -> int:
        search = tune.Experiment("search", own, storage_path=tmp_path, **said)
        loop = search.trainable.trainer._train_loop_per_worker
        return int(loop.report_options["frequency"])

    assert frequency(checkpoint_config=CheckpointConfig(checkpoint_frequency=1)) == 1
    assert frequency() == 0


@both
def test_rounds_are_tuned(run_config, trainer, params, metric):
    own = trainer(
        params=params, label_column="y", num_boost_round=2, datasets=datasets(),
        scaling_config=ScalingConfig(num_workers=1),
    )  # fmt: skip
    found = tune.Tuner(
        own, param_space={"num_boost_round": tune.grid_search([1, 3])}, run_config=run_config()
    ).fit()
    assert sorted(rounds(trainer.get_model(one.checkpoint)) for one in found) == [1, 3]
    assert own.num_boost_round == 2


def test_in_this_process(run_config):
    for trainer, params in ((XGBoostTrainer, XGBOOST), (LightGBMTrainer, LIGHTGBM)):
        result = trainer(
            params=params, label_column="y", num_boost_round=2, datasets=datasets(),
            scaling_config=ScalingConfig(num_workers=0), run_config=run_config(name=str(trainer)),
        ).fit()  # fmt: skip
        assert rounds(trainer.get_model(result.checkpoint)) == 2


def test_checkpoints_with_models(run_config, tmp_path):
    table = frame(40)
    features, labels = table.drop(columns="y"), table["y"]
    boosted = {
        XGBoostCheckpoint: xgboost.train(XGBOOST, xgboost.DMatrix(features, label=labels), 3),
        LightGBMCheckpoint: lightgbm.train(LIGHTGBM, lightgbm.Dataset(features, label=labels), 3),
    }
    predictors = {XGBoostCheckpoint: XGBoostPredictor, LightGBMCheckpoint: LightGBMPredictor}
    for kind, model in boosted.items():
        folder = tmp_path / kind.__name__
        folder.mkdir()
        checkpoint = kind.from_model(model, path=folder)
        assert rounds(checkpoint.get_model()) == 3
        predictor = BatchPredictor.from_checkpoint(checkpoint, predictors[kind])
        answers = predictor.predict(skate.data.from_pandas(features)).to_pandas()["predictions"]
        assert np.corrcoef(answers, labels)[0, 1] > 0.7
        with pytest.raises(ValueError, match="nowhere"):
            kind.from_model(model, path=tmp_path / "nowhere")


@both
def test_what_a_trainer_without_a_loop_needs(run_config, trainer, params, metric):
    data = datasets()
    for kind in (ValueError, KeyError):
        with pytest.raises(kind, match="datasets needs 'train'"):
            trainer(params=params, label_column="y", datasets={"valid": data["valid"]})
    with pytest.raises(ValueError, match="label_column"):
        trainer(params=params, datasets=data)
    with pytest.raises(KeyError, match="dmatrix_params"):
        trainer(params=params, label_column="y", datasets=data, dmatrix_params={"other": {}})
    with pytest.raises(ValueError, match=r"params.*early_stopping_rounds"):
        trainer(lambda: None, params=params, early_stopping_rounds=3)


def test_settings_that_do_not_exist():
    with pytest.raises(ValueError, match=r"'rabit'.*'federated'"):
        XGBoostConfig(xgboost_communicator="federated")


def test_metrics_that_do_not_exist(run_config):
    def loop():
        table = lightgbm.Dataset(np.random.default_rng(0).random((20, 2)), label=np.arange(20))
        lightgbm.train(
            LIGHTGBM, table, 1, valid_sets=[table], valid_names=["train"],
            callbacks=[LightGBMReports(["valid-l2"])],
        )  # fmt: skip

    with pytest.raises(train.TrainingFailedError, match=r"no metrics \['valid-l2'\].*train-l2"):
        LightGBMTrainer(
            loop, scaling_config=ScalingConfig(num_workers=0), run_config=run_config()
        ).fit()


def test_a_process_of_its_own_has_no_network():
    assert get_network_params() == {}


def test_frames_of_arrow():
    import pyarrow as pa

    kinds = {"i": pa.int32(), "u": pa.uint8(), "f": pa.float64(), "b": pa.bool_()}
    table = pd.DataFrame({name: pd.array([1, 0], pd.ArrowDtype(t)) for name, t in kinds.items()})
    table["plain"] = [1.5, 2.5]
    normal = normalize_pandas_for_lightgbm(table)
    assert list(map(str, normal.dtypes)) == ["Int32", "UInt8", "Float64", "boolean", "float64"]
    assert lightgbm.Dataset(normal, params={"verbosity": -1}).construct().num_data() == 2


class _Booster:
    """A model that any library could have made."""

    def save_model(self, path: str) -> None:
        Path(path).write_text("trees")


@pytest.mark.parametrize(("rank", "saves"), [(None, True), (0, True), (1, False)])
@pytest.mark.parametrize("callback", [XGBoostReports, LightGBMReports])
def test_the_first_worker_saves_the_model(monkeypatch, callback, rank, saves):
    context = TrainContext(SessionInfo(world_rank=rank))
    monkeypatch.setattr(train, "get_context", lambda: context)
    made = callback(filename="model.txt")
    with made._get_checkpoint(_Booster()) as checkpoint:
        assert (checkpoint is not None) == saves
        if checkpoint is not None:
            assert Path(checkpoint.path, "model.txt").read_text() == "trees"


def test_a_callback_whose_iterations_are_told_elsewhere_reports_nothing_at_the_end():
    class Elsewhere(XGBoostReports):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            told.append(epoch)
            return False

    told: list[int] = []
    matrix = xgboost.DMatrix(frame(10)[["a", "b"]], label=frame(10)["y"])
    xgboost.train(XGBOOST, matrix, num_boost_round=2, callbacks=[Elsewhere()])  # no trial here
    assert told == [0, 1]
