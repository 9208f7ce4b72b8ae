"""Estimators of scikit-learn, fitted in a worker."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline

import skate.data
from skate import tune
from skate.data.preprocessors import StandardScaler
from skate.predict import BatchPredictor, SklearnPredictor
from skate.train import ScalingConfig
from skate.train.sklearn import SklearnCheckpoint, SklearnTrainer


def frame(count: int, seed: int = 0) -> pd.DataFrame:
    table = pd.DataFrame(np.random.default_rng(seed).random((count, 2)), columns=["a", "b"])
    table["y"] = (table["a"] + table["b"] > 1).astype(int)
    return table


def datasets() -> dict[str, Any]:
    return {
        "train": skate.data.from_pandas(frame(80)),
        "valid": skate.data.from_pandas(frame(20, seed=1)),
    }


def test_an_estimator_is_fitted_scored_and_used(run_config):
    scaler = StandardScaler(["a"])
    result = SklearnTrainer(
        estimator=RandomForestClassifier(5, random_state=0), params={"max_depth": 4},
        label_column="y", scoring=["accuracy", "roc_auc"], cv=4, return_train_score_cv=True,
        datasets=datasets(), preprocessor=scaler, run_config=run_config(),
        scaling_config=ScalingConfig(trainer_resources={"CPU": 2}),
    ).fit()  # fmt: skip
    assert result.metrics["valid"]["test_accuracy"] > 0.7
    assert result.metrics["valid"]["test_roc_auc"] > 0.7
    folds = result.metrics["cv"]
    assert len(folds["test_accuracy"]) == 4
    assert folds["test_accuracy_mean"] == pytest.approx(np.mean(folds["test_accuracy"]))
    assert folds["train_accuracy_mean"] > 0.9
    model = SklearnTrainer.get_model(result.checkpoint)
    assert (model.max_depth, model.n_jobs) == (4, 2)

    predictor = BatchPredictor.from_checkpoint(result.checkpoint, SklearnPredictor)
    fresh = frame(30, seed=2)
    answers = predictor.predict(skate.data.from_pandas(fresh), feature_columns=["a", "b"])
    assert (answers.to_pandas()["predictions"] == fresh["y"]).mean() > 0.7


def test_folds_by_groups_in_threads(run_config):
    table = frame(60).assign(cv_groups=np.arange(60) % 3)
    trainer = SklearnTrainer(
        estimator=make_pipeline(LogisticRegression()), label_column="y", cv=GroupKFold(3),
        parallelize_cv=True, set_estimator_cpus=False,
        datasets={"train": skate.data.from_pandas(table)}, run_config=run_config(),
    )  # fmt: skip
    result = trainer.fit()
    assert len(result.metrics["cv"]["test_score"]) == 3
    assert list(SklearnTrainer.get_model(result.checkpoint).feature_names_in_) == ["a", "b"]


def test_in_this_process(run_config):
    trainer = SklearnTrainer(
        estimator=LogisticRegression(), datasets=datasets(), label_column="y",
        scaling_config=ScalingConfig(num_workers=0), run_config=run_config(),
        preprocessor=StandardScaler(["a"]), sample_weight=np.ones(80),
    )  # fmt: skip
    result = trainer.fit()
    assert result.metrics["pid"] == os.getpid()
    assert result.metrics["valid"]["test_score"] > 0.7
    assert not hasattr(trainer.estimator, "coef_")
    assert trainer.datasets["valid"].to_pandas().equals(frame(20, seed=1))


def test_parameters_are_tuned(run_config):
    trainer = SklearnTrainer(
        estimator=LogisticRegression(), params={"C": 1.0}, datasets=datasets(), label_column="y"
    )
    found = tune.Tuner(
        trainer,
        param_space={"params": {"C": tune.grid_search([1e-6, 10.0])}},
        tune_config=tune.TuneConfig(metric="valid/test_score", mode="max"),
        run_config=run_config(),
    ).fit()
    assert found.get_best_result().config["params"]["C"] == 10.0
    assert trainer.params == {"C": 1.0}


def test_a_checkpoint_with_an_estimator(tmp_path):
    table = frame(30)
    fitted = LogisticRegression().fit(table[["a", "b"]], table["y"])
    checkpoint = SklearnCheckpoint.from_estimator(fitted, path=tmp_path)
    assert np.array_equal(checkpoint.get_estimator().coef_, fitted.coef_)
    assert sorted(os.listdir(tmp_path)) == ["model.pkl"]


def test_what_cannot_be_fitted():
    data = datasets()
    settings: dict[str, Any] = {"estimator": LogisticRegression(), "label_column": "y"}
    with pytest.raises(KeyError, match="'train'"):
        SklearnTrainer(datasets={"valid": data["valid"]}, **settings)
    with pytest.raises(KeyError, match="'cv'"):
        SklearnTrainer(datasets={**data, "cv": data["valid"]}, **settings)
    with pytest.raises(ValueError, match="not allowed to be updated"):
        SklearnTrainer(datasets=data, scaling_config=ScalingConfig(num_workers=2), **settings)
    with pytest.raises(ValueError, match="parallelize_cv"):
        SklearnTrainer(
            datasets=data, cv=3, parallelize_cv=True,
            scaling_config=ScalingConfig(trainer_resources={"GPU": 1}), **settings,
        )  # fmt: skip
    with pytest.raises(ValueError, match="resume_from_checkpoint"):
        SklearnTrainer(datasets=data, resume_from_checkpoint=None, **settings)
