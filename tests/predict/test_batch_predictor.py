"""Predictions for datasets, by predictors in actors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import skate
import skate.data
from skate._run.checkpoint import Checkpoint
from skate.data.preprocessors import MinMaxScaler
from skate.predict import BatchPredictor, Predictor, TorchPredictor
from tests.leftovers import Picture, leftovers_since
from tests.support import eventually

pytestmark = pytest.mark.leaves("one session for the whole file")


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    before = Picture.take()
    skate.init(engine="local", num_cpus=2, num_gpus=1)
    yield
    skate.shutdown()
    assert not leftovers_since(before)


class Times(Predictor):
    """Multiplies DataFrames, in place, and says where."""

    def __init__(self, factor: float, preprocessor: Any, use_gpu: bool) -> None:
        super().__init__(preprocessor)
        self.factor = factor
        self.use_gpu = use_gpu

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, use_gpu: bool = False, **kwargs: Any
    ) -> Times:
        return cls(checkpoint.to_dict()["factor"], checkpoint.get_preprocessor(), use_gpu)

    def _predict_pandas(
        self, data: Any, where: bool = False, meet: Path | None = None, **kwargs: Any
    ) -> Any:
        data *= self.factor
        if meet is not None:  # two processes, before either goes on
            (meet / str(os.getpid())).touch()
            eventually(lambda: len(list(meet.iterdir())) == 2)
        if where:
            data = data.assign(
                pid=os.getpid(), gpu=os.environ["CUDA_VISIBLE_DEVICES"], use_gpu=self.use_gpu
            )
        return data


class TimesArrays(Times):
    def _predict_numpy(self, data: Any, **kwargs: Any) -> Any:
        return {name: array * self.factor for name, array in data.items()}

    def _predict_pandas(
        self, data: Any, where: bool = False, meet: Path | None = None, **kwargs: Any
    ) -> Any:
        raise AssertionError("arrays are what this class prefers")

    @classmethod
    def preferred_batch_format(cls) -> Any:
        from skate.predict import BatchFormat

        return BatchFormat.NUMPY


FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 5.0, 10.0], "c": [7.0, 8.0, 9.0]})


def scaled() -> Any:
    return MinMaxScaler(columns=["b"]).fit(skate.data.from_pandas(FRAME))


def checkpoint_with(preprocessor: Any) -> Checkpoint:
    checkpoint = Checkpoint.from_dict({"factor": 2.0})
    checkpoint.set_preprocessor(preprocessor)
    return checkpoint


@pytest.mark.parametrize("cls", [Times, TimesArrays])
def test_columns_are_chosen_after_preprocessing(cls: type[Times]) -> None:
    predictor = BatchPredictor.from_checkpoint(checkpoint_with(scaled()), cls)
    result = predictor.predict(
        skate.data.from_pandas(FRAME), feature_columns=["a", "b"], keep_columns=["c"]
    ).to_pandas()
    assert {name: list(result[name]) for name in result} == {
        "a": [2, 4, 6],
        "b": [0, 1, 2],
        "c": [7, 8, 9],
    }
    assert FRAME["a"].tolist() == [1, 2, 3]


def test_keeping_a_column_that_is_predicted_from() -> None:
    predictor = BatchPredictor.from_checkpoint(Checkpoint.from_dict({"factor": 2.0}), Times)
    result = predictor.predict(skate.data.from_pandas(FRAME[["a"]]), keep_columns=["a"])
    assert result.to_pandas()["a"].tolist() == [1, 2, 3]


def test_the_preprocessor_can_be_replaced() -> None:
    predictor = BatchPredictor.from_checkpoint(checkpoint_with(scaled()), Times)
    other = MinMaxScaler(columns=["a"]).fit(skate.data.from_pandas(FRAME))
    predictor.set_preprocessor(other)
    assert predictor.get_preprocessor() is other
    result = predictor.predict(skate.data.from_pandas(FRAME)).to_pandas()
    assert result["a"].tolist() == [0, 1, 2]
    assert result["b"].tolist() == [0, 10, 20]


@pytest.mark.parametrize("separate", [True, False])
def test_gpus_of_workers(separate: bool) -> None:
    predictor = BatchPredictor.from_checkpoint(checkpoint_with(scaled()), Times)
    result = predictor.predict(
        skate.data.from_pandas(FRAME),
        num_gpus_per_worker=1,
        separate_gpu_stage=separate,
        where=True,
    ).to_pandas()
    assert result["b"].tolist() == [0, 1, 2]
    assert result["use_gpu"].all()
    assert set(result["gpu"]) == {"0"}


def test_workers_share_the_batches(tmp_path: Path) -> None:
    predictor = BatchPredictor.from_checkpoint(Checkpoint.from_dict({"factor": 2}), Times)
    numbers = skate.data.range(200, override_num_blocks=20)
    result = predictor.predict(
        numbers, min_scoring_workers=2, max_scoring_workers=2, batch_size=10, where=True,
        meet=tmp_path,
    ).to_pandas()  # fmt: skip
    assert result["id"].tolist() == list(range(0, 400, 2))
    assert result["pid"].nunique() == 2
    assert os.getpid() not in set(result["pid"])


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def fail(frame: Any) -> Any:
        raise RuntimeError("computed")

    predictor = BatchPredictor.from_pandas_udf(fail)
    lazy = predictor.predict_pipelined(skate.data.range(4), blocks_per_window=2)
    with pytest.raises(RuntimeError, match="computed"):
        lazy.take()
    with pytest.raises(RuntimeError, match="computed"):
        predictor.predict(skate.data.range(4))
    with pytest.raises(ValueError, match="not both"):
        predictor.predict_pipelined(skate.data.range(4), blocks_per_window=2, bytes_per_window=100)


def test_a_function_of_frames() -> None:
    predictor = BatchPredictor.from_pandas_udf(lambda frame, plus=0: frame + plus)
    assert [row["id"] for row in predictor.predict(skate.data.range(3), plus=1).take()] == [
        1,
        2,
        3,
    ]


def test_columns_that_are_not_there() -> None:
    rows = skate.data.from_pandas(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    predictor = BatchPredictor.from_checkpoint(Checkpoint.from_dict({"factor": 2.0}), Times)
    for parameter in ("feature_columns", "keep_columns"):
        columns: dict[str, Any] = {parameter: ["a", "c"]}
        with pytest.raises(KeyError, match=rf"{parameter} names \['c'\].*\['a', 'b'\]"):
            predictor.predict(rows, **columns)


def test_what_is_no_dataset_and_no_checkpoint() -> None:
    predictor = BatchPredictor.from_checkpoint(Checkpoint.from_dict({"factor": 2.0}), Times)
    with pytest.raises(TypeError, match="takes a dataset; got list"):
        predictor.predict([1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="BatchPredictor takes a Checkpoint"):
        BatchPredictor.from_checkpoint(None, Times)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"min_scoring_workers is at least 1.*got 3 and 2"):
        predictor.predict(skate.data.range(1), min_scoring_workers=3, max_scoring_workers=2)


def test_nothing_to_predict() -> None:
    predictor = BatchPredictor.from_checkpoint(Checkpoint.from_dict({"factor": 2.0}), Times)
    assert predictor.predict(skate.data.from_items([])).count() == 0


def test_only_predictors_predict() -> None:
    with pytest.raises(TypeError, match="class of predictors"):
        BatchPredictor.from_checkpoint(Checkpoint.from_dict({}), dict)  # type: ignore[arg-type]
    text = repr(BatchPredictor.from_checkpoint(Checkpoint.from_dict({"factor": 2}), Times))
    assert text == "BatchPredictor(checkpoint=Checkpoint(data=['factor']), predictor_cls=Times)"


# -- as the guide to PyTorch does it -------------------------------------------------------------


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(x)
        return logits


def test_images_get_classes() -> None:
    torch.manual_seed(0)
    model, images = Network(), torch.rand(10, 1, 4, 4)
    checkpoint = Checkpoint.from_dict({"epoch": 1, "model": model.state_dict()})
    predictor = BatchPredictor.from_checkpoint(checkpoint, TorchPredictor, model=Network())
    results = predictor.predict(
        skate.data.from_items(list(images)), min_scoring_workers=2, batch_size=4
    )
    with torch.no_grad():
        expected = model(images).numpy()
    found = results.to_pandas()
    assert list(found.columns) == ["predictions"]
    np.testing.assert_allclose(
        np.stack(list(found["predictions"])), expected, rtol=1e-5, atol=1e-6
    )
    classes = results.map_batches(
        lambda batch: ["abc"[p.argmax(0)] for p in batch["predictions"]], batch_format="pandas"
    )
    assert classes.take_all() == ["abc"[c] for c in expected.argmax(1)]  # type: ignore[comparison-overlap]
