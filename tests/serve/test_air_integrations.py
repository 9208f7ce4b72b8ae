"""A predictor as a deployment, and how requests become its input."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient
from PIL import Image

import skate
from skate import serve
from skate.predict import Predictor
from skate.serve import http_adapters
from skate.serve.drivers import SimpleSchemaIngress
from skate.train import Checkpoint
from tests.support import PATIENCE


class Doubles(Predictor):
    @classmethod
    def from_checkpoint(cls, checkpoint: Any, **options: Any) -> Doubles:
        return cls()

    def _predict_numpy(self, data: Any, **options: Any) -> Any:
        return {"predictions": data * 2, "together": np.full(len(data), len(data))}


def adapted(adapter: Any, **given: Any) -> Any:
    """Return what an adapter makes of a request."""
    found = []

    class Ingress(SimpleSchemaIngress):
        async def predict(self, inp: Any) -> None:
            found.append(inp)

    status = TestClient(Ingress(adapter).app).post("/", **given).status_code
    return found[0] if status == 200 else status


def test_adapters() -> None:
    assert adapted(http_adapters.json_request, json={"a": 1}) == {"a": 1}
    said = {"array": [1, 2], "shape": [2, 1], "dtype": "float32"}
    array = adapted(http_adapters.json_to_ndarray, json=said)
    assert (array.shape, array.dtype) == ((2, 1), np.float32)
    several = adapted(http_adapters.json_to_multi_ndarray, json={"a": {"array": [1]}})
    assert several["a"].tolist() == [1]
    frame = adapted(
        http_adapters.pandas_read_json, json=[{"a": 1}, {"a": 2}], params={"orient": "records"}
    )
    assert frame.equals(pd.DataFrame({"a": [1, 2]}))
    file = io.BytesIO()
    Image.new("RGB", (3, 2)).save(file, "PNG")
    pixels = adapted(http_adapters.image_to_ndarray, files={"img": file.getvalue()})
    assert pixels.shape == (2, 3, 3)
    assert adapted(http_adapters.json_to_ndarray, json=[1]) == 422
    assert adapted(http_adapters.image_to_ndarray, data={"img": "text"}) == 422


def test_adapters_run_no_programs_and_take_no_memory_that_a_request_names() -> None:
    file = io.BytesIO()
    Image.new("RGB", (3, 2)).save(file, "EPS")  # a program in PostScript
    assert adapted(http_adapters.image_to_ndarray, files={"img": file.getvalue()}) == 422
    text = adapted(http_adapters.json_to_ndarray, json={"array": ["a" * 40], "dtype": "str"})
    assert text.tolist() == ["a" * 40]


DTYPES = "S33 U100000000 V1000000000 V8 (1,2 (-1,)f4 i4,i4 (2,)f4 O object i3 f99 none-such"


@pytest.mark.parametrize("dtype", [*DTYPES.split(), "no type", "", "float32, float32"])
def test_only_names_of_plain_numbers_and_text_are_a_dtype(dtype: str) -> None:
    said = {"array": [1], "dtype": dtype}
    assert adapted(http_adapters.json_to_ndarray, json=said) == 422


@pytest.mark.parametrize("dtype", ["float32", "f4", "<f4", "int", "bool", "uint8", "complex64"])
def test_names_that_numpy_has_for_plain_numbers(dtype: str) -> None:
    array = adapted(http_adapters.json_to_ndarray, json={"array": [1], "dtype": dtype})
    assert array.dtype == np.dtype(dtype)


def test_what_is_missing_is_not_a_number() -> None:
    array = adapted(http_adapters.json_to_ndarray, json={"array": [None], "dtype": "float32"})
    assert np.isnan(array).all()


WRONG_ARRAYS: list[dict[str, Any]] = [
    {"array": [[1], [1, 2]]},
    {"array": [1, 2], "shape": [3]},
    {"array": [1, 2], "shape": [-1, -1]},
    {"array": ["a"], "dtype": "float32"},
    {"array": [300], "dtype": "int8", "shape": [10**30]},
    {"array": [{"a": 1}]},
    {"array": [None]},
]


@pytest.mark.parametrize("said", WRONG_ARRAYS, ids=str)
def test_an_array_that_is_none_is_the_clients_mistake(said: dict[str, Any]) -> None:
    assert adapted(http_adapters.json_to_ndarray, json=said) == 422


@pytest.mark.parametrize(
    ("adapter", "given"),
    [
        (http_adapters.json_request, {"content": b"{"}),
        (http_adapters.json_request, {"content": b"\xff"}),
        (http_adapters.pandas_read_json, {"content": b"{"}),
        (http_adapters.pandas_read_json, {"content": b"\xff"}),
        (http_adapters.pandas_read_json, {"content": b"[]", "params": {"none_such": "1"}}),
        (http_adapters.image_to_ndarray, {"files": {"img": b"no image"}}),
    ],
    ids=str,
)
def test_bodies_that_cannot_be_read_are_the_clients_mistake(
    adapter: Any, given: dict[str, Any]
) -> None:
    assert adapted(adapter, **given) == 422


def test_an_image_that_ends_early_is_the_clients_mistake() -> None:
    file = io.BytesIO()
    Image.new("RGB", (300, 200)).save(file, "PNG")
    half = file.getvalue()[:100]
    assert adapted(http_adapters.image_to_ndarray, files={"img": half}) == 422


def test_predictions_alone_and_together() -> None:
    async def ask(url: str, samples: list[Any]) -> list[Any]:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
            asked = [client.post("/", json={"array": sample}) for sample in samples]
            return [answer.json() for answer in await asyncio.gather(*asked)]

    skate.init(num_cpus=2)
    try:
        serve.start(http_options={"port": 0})
        checkpoint = Checkpoint.from_dict({})
        serve.run(serve.PredictorDeployment.bind(Doubles, checkpoint))
        (alone,) = asyncio.run(ask(serve.http_address(), [[1, 2]]))
        assert alone == {"predictions": [2, 4], "together": [2, 2]}
        together = {"max_batch_size": 2, "batch_wait_timeout_s": PATIENCE}
        serve.run(serve.PredictorDeployment.bind(Doubles, checkpoint, batching_params=together))
        both = asyncio.run(ask(serve.http_address(), [[1, 1], [2, 2]]))
        assert both == [
            {"predictions": [2, 2], "together": 2},
            {"predictions": [4, 4], "together": 2},
        ]
    finally:
        skate.shutdown()
