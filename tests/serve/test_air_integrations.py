"""A predictor as a deployment, and how requests become its input."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from starlette.requests import Request

import skate
from skate import serve
from skate.predict import Predictor
from skate.serve import http_adapters
from skate.train import Checkpoint
from tests.support import PATIENCE


class Doubles(Predictor):
    @classmethod
    def from_checkpoint(cls, checkpoint: Any, **options: Any) -> Doubles:
        return cls()

    def _predict_numpy(self, data: Any, **options: Any) -> Any:
        return {"predictions": data * 2, "together": np.full(len(data), len(data))}


def request(body: bytes, query: bytes = b"") -> Request:
    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "headers": [], "path": "/", "query_string": query}
    return Request(scope, receive)


def adapted(adapter: Any, body: bytes, query: bytes = b"") -> Any:
    return asyncio.run(adapter(request(body, query)))


def test_adapters() -> None:
    assert adapted(http_adapters.json_request, b'{"a": 1}') == {"a": 1}
    array = adapted(
        http_adapters.json_to_ndarray, b'{"array":[1,2],"shape":[2,1],"dtype":"float32"}'
    )
    assert (array.shape, array.dtype) == ((2, 1), np.float32)
    several = adapted(http_adapters.json_to_multi_ndarray, b'{"a":{"array":[1]}}')
    assert several["a"].tolist() == [1]
    frame = adapted(http_adapters.pandas_read_json, b'[{"a":1},{"a":2}]', b"orient=records")
    assert frame.equals(pd.DataFrame({"a": [1, 2]}))
    file = io.BytesIO()
    Image.new("RGB", (3, 2)).save(file, "PNG")
    assert adapted(http_adapters.image_to_ndarray, file.getvalue()).shape == (2, 3, 3)
    with pytest.raises(ValueError, match="the body looks like"):
        adapted(http_adapters.json_to_ndarray, b"[1]")


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
