"""Predictors on batches: forms in and out, preprocessors, and models of every kind."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from skate._run.checkpoint import Checkpoint
from skate.data.preprocessors import MinMaxScaler
from skate.predict import (
    LightGBMPredictor,
    Predictor,
    PredictorNotSerializableException,
    SklearnPredictor,
    TorchPredictor,
    XGBoostPredictor,
)

FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})


class Times(Predictor):
    """Multiplies DataFrames."""

    def __init__(self, factor: float, preprocessor: Any = None) -> None:
        super().__init__(preprocessor)
        self.factor = factor

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Times:
        return cls(checkpoint.to_dict()["factor"], checkpoint.get_preprocessor())

    def _predict_pandas(self, data: Any, **kwargs: Any) -> Any:
        return data * kwargs.get("factor", self.factor)


class TimesArrays(Times):
    """Multiplies arrays; it would also take DataFrames."""

    def _predict_numpy(self, data: Any, **kwargs: Any) -> Any:
        if isinstance(data, dict):
            return {name: array * self.factor for name, array in data.items()}
        return {"predictions": data * self.factor}


class Doubled:
    """The least that is a preprocessor."""

    def transform_batch(self, batch: Any) -> Any:
        return batch * 2 if not isinstance(batch, dict) else {k: v * 2 for k, v in batch.items()}


BATCHES = {
    "pandas": FRAME,
    "numpy": {"a": FRAME["a"].to_numpy(), "b": FRAME["b"].to_numpy()},
    "arrow": pa.table({"a": FRAME["a"], "b": FRAME["b"]}),
}


def columns(batch: Any) -> dict[str, Any]:
    if isinstance(batch, pa.Table):
        return dict(batch.to_pydict())
    return {name: list(batch[name]) for name in batch}


@pytest.mark.parametrize("cls", [Times, TimesArrays])
@pytest.mark.parametrize("form", BATCHES)
def test_predictions_come_in_the_form_of_the_batch(cls: type[Times], form: str) -> None:
    predictions = cls(3).predict(BATCHES[form])
    assert type(predictions) is type(BATCHES[form])
    assert columns(predictions) == {"a": [3, 6, 9], "b": [12, 15, 18]}


def test_an_array_without_names() -> None:
    assert TimesArrays(3).predict(np.array([1, 2]))["predictions"].tolist() == [3, 6]
    assert Times(3).predict(np.array([1, 2])).tolist() == [3, 6]
    images = np.ones((2, 4, 4))
    assert TimesArrays(3).predict(images)["predictions"].shape == (2, 4, 4)


def test_arguments_reach_the_model() -> None:
    assert columns(Times(3).predict(FRAME, factor=10))["a"] == [10, 20, 30]


@pytest.mark.parametrize("form", ["pandas", "numpy"])
def test_batches_go_through_the_preprocessor_first(form: str) -> None:
    checkpoint = Checkpoint.from_dict({"factor": 3})
    preprocessor = Doubled()
    checkpoint.set_preprocessor(preprocessor)
    predictor = Times.from_checkpoint(checkpoint)
    assert predictor.get_preprocessor() is preprocessor
    assert columns(predictor.predict(BATCHES[form]))["a"] == [6, 12, 18]
    predictor.set_preprocessor(None)
    assert columns(predictor.predict(BATCHES[form]))["a"] == [3, 6, 9]


def test_what_a_predictor_must_be_written_for() -> None:
    class Nothing(Predictor):
        @classmethod
        def from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Nothing:
            return cls()

    with pytest.raises(NotImplementedError, match="_predict_pandas and _predict_numpy"):
        Nothing().predict(FRAME)
    with pytest.raises(TypeError, match="got a list"):
        Times(3).predict([1, 2])


def test_predictors_do_not_travel() -> None:
    with pytest.raises(PredictorNotSerializableException, match=r"Times\.from_checkpoint"):
        pickle.dumps(Times(3))
    assert cloudpickle.loads(cloudpickle.dumps(Times))(3).factor == 3


def test_a_function_of_frames() -> None:
    predictor = Predictor.from_pandas_udf(lambda frame, plus=0: frame + plus)
    assert columns(predictor.predict(FRAME, plus=1))["a"] == [2, 3, 4]


# -- PyTorch -------------------------------------------------------------------------------------


class Sum(torch.nn.Module):
    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return inputs["a"] + inputs["b"]


class Both(torch.nn.Module):
    def forward(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        return [inputs, inputs]


class Named(TorchPredictor):
    def call_model(self, inputs: Any) -> Any:
        return dict(zip("xy", super().call_model(inputs), strict=True))


def test_torch_takes_one_column_as_a_tensor() -> None:
    model = torch.nn.Linear(2, 1)
    model.train()
    predictor = TorchPredictor(model)
    data = np.array([[1, 2], [3, 4]])
    predictions = predictor.predict(data, dtype=torch.float32)["predictions"]
    with torch.no_grad():
        expected = model(torch.tensor(data, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(predictions, expected)
    assert not predictor.model.training
    assert repr(predictor) == "TorchPredictor(model=Linear, preprocessor=None, use_gpu=False)"


@pytest.mark.parametrize("form", BATCHES)
def test_torch_takes_several_columns_as_a_dictionary(form: str) -> None:
    predictions = TorchPredictor(Sum()).predict(BATCHES[form])
    assert columns(predictions) == {"predictions": [5, 7, 9]}
    half = TorchPredictor(Sum()).predict(BATCHES["numpy"], dtype={"a": torch.float16})
    assert half["predictions"].dtype == np.float64


def test_torch_outputs_other_than_tensors_need_a_class_of_their_own() -> None:
    with pytest.raises(ValueError, match="derive from TorchPredictor"):
        TorchPredictor(Both()).predict(np.array([1]))
    assert columns(Named(Both()).predict(np.array([1, 2]))) == {"x": [1, 2], "y": [1, 2]}


def test_torch_models_get_floats_of_their_own_precision() -> None:
    model = torch.nn.Linear(2, 1)
    rows = np.ones((3, 2))
    assert rows.dtype == np.float64
    expected = model(torch.ones(3, 2)).detach().numpy()
    np.testing.assert_allclose(TorchPredictor(model).predict(rows)["predictions"], expected)
    wide = TorchPredictor(torch.nn.Linear(2, 1).double()).predict(rows.astype(np.float32))
    assert wide["predictions"].dtype == np.float64


def test_torch_models_in_checkpoints() -> None:
    model = torch.nn.Linear(2, 1)
    weights = Checkpoint.from_dict({"model": model.state_dict()})
    predictor = TorchPredictor.from_checkpoint(weights, model=torch.nn.Linear(2, 1))
    assert torch.equal(predictor.model.weight, model.weight)
    with pytest.raises(ValueError, match="only weights"):
        TorchPredictor.from_checkpoint(weights)
    whole = Checkpoint.from_dict({"model": model})
    assert torch.equal(TorchPredictor.from_checkpoint(whole).model.weight, model.weight)


# -- tables of numbers ---------------------------------------------------------------------------

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]] * 20)
TARGETS = np.array([0, 1, 0] * 20)
TABLE = pd.DataFrame(ROWS, columns=["A", "B"])
WIDE = pd.DataFrame({"C": 9.0, "A": TABLE["A"], "B": TABLE["B"]})


def forest() -> Any:
    return RandomForestClassifier(n_estimators=5, random_state=0)


def sklearn_model(table: Any, folder: Path) -> Any:
    model = forest().fit(table, TARGETS)
    (folder / "model.pkl").write_bytes(cloudpickle.dumps(model))
    return model


def xgboost_model(table: Any, folder: Path) -> Any:
    model = xgboost.XGBClassifier(n_estimators=3).fit(table, TARGETS).get_booster()
    model.save_model(folder / "model.json")
    return model


def lightgbm_model(table: Any, folder: Path) -> Any:
    classifier = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=1, verbose=-1)
    model = classifier.fit(table, TARGETS).booster_
    model.save_model(folder / "model.txt")
    return model


KINDS = [
    (SklearnPredictor, sklearn_model),
    (XGBoostPredictor, xgboost_model),
    (LightGBMPredictor, lightgbm_model),
]


@pytest.mark.parametrize(("cls", "make"), KINDS)
def test_tables_by_name(cls: Any, make: Any, tmp_path: Path) -> None:
    predictor = cls(make(TABLE, tmp_path))
    predictions = predictor.predict(TABLE)["predictions"]
    assert ((predictions > 0.5) == (TARGETS > 0.5)).all()
    wide = predictor.predict(WIDE, feature_columns=["A", "B"])
    assert wide["predictions"].tolist() == predictions.tolist()
    from_folder = cls.from_checkpoint(Checkpoint.from_directory(tmp_path), allow_pickle=True)
    assert from_folder.predict(TABLE)["predictions"].tolist() == predictions.tolist()
    assert repr(predictor).startswith(f"{cls.__name__}(model=")


@pytest.mark.parametrize(("cls", "make"), KINDS)
def test_arrays_by_number(cls: Any, make: Any, tmp_path: Path) -> None:
    model = make(ROWS, tmp_path)
    checkpoint = Checkpoint.from_dict({"model": model})
    predictor = cls.from_checkpoint(checkpoint)
    expected = predictor.predict(ROWS)["predictions"]
    assert ((expected > 0.5) == (TARGETS > 0.5)).all()
    wide = predictor.predict(np.column_stack([ROWS, ROWS]), feature_columns=[0, 1])
    assert np.array_equal(wide["predictions"], expected)
    assert np.array_equal(predictor.predict(pd.DataFrame(ROWS))["predictions"], expected)


def test_fitted_preprocessors_travel_in_checkpoints(tmp_path: Path) -> None:
    import skate.data

    scaler = MinMaxScaler(columns=["A", "B"]).fit(skate.data.from_pandas(TABLE))
    sklearn_model(scaler.transform_batch(TABLE), tmp_path)
    checkpoint = Checkpoint.from_directory(tmp_path)
    checkpoint.set_preprocessor(scaler)
    predictor = SklearnPredictor.from_checkpoint(checkpoint, allow_pickle=True)
    assert predictor.predict(TABLE)["predictions"].tolist() == TARGETS.tolist()


def test_the_cpus_of_an_estimator() -> None:
    model = make_pipeline(forest()).fit(ROWS, TARGETS)
    predictor = SklearnPredictor(model)
    predictor.predict(ROWS, num_estimator_cpus=2)
    assert predictor.estimator.steps[0][1].n_jobs == 2


def test_a_checkpoint_without_a_model() -> None:
    with pytest.raises(ValueError, match=r"no model in .*it has \['weights'\]"):
        XGBoostPredictor.from_checkpoint(Checkpoint.from_dict({"weights": 1}))


# -- other paths ---------------------------------------------------------------------------------


def test_the_paths_that_users_know_lead_here() -> None:
    from skate.air.predictors.integrations.torch import TorchPredictor as FirstPath
    from skate.train.predictor import TYPE_TO_ENUM

    from skate import air, train
    from skate.predict import BatchPredictor

    assert air.BatchPredictor is train.batch_predictor.BatchPredictor is BatchPredictor
    assert FirstPath is train.torch.TorchPredictor is TorchPredictor
    assert TYPE_TO_ENUM[pd.DataFrame] == "pandas"


def test_conversions_under_their_old_path() -> None:
    from skate.air.util.data_batch_conversion import (
        BatchFormat,
        convert_batch_type_to_pandas,
        convert_pandas_to_batch_type,
    )

    arrays = convert_pandas_to_batch_type(FRAME, BatchFormat.NUMPY)
    assert convert_batch_type_to_pandas(arrays).equals(FRAME)
    column = convert_pandas_to_batch_type(FRAME[["a"]], BatchFormat.NUMPY)
    assert column.tolist() == [1, 2, 3]
    assert convert_pandas_to_batch_type(FRAME, BatchFormat.ARROW).to_pydict()["b"] == [4, 5, 6]
