"""What stands in front of a graph, and makes its input of a request."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel
from starlette.requests import Request

import skate
from skate import serve
from skate.dag import InputNode
from skate.serve.drivers import DAGDriver, SimpleSchemaIngress, load_http_adapter
from skate.serve.http_adapters import json_request
from tests.support import run_program


class Point(BaseModel):
    x: int
    y: int = 5


class Echo(SimpleSchemaIngress):
    async def predict(self, inp: Any) -> Any:
        return inp


@serve.deployment
class Model:
    def double(self, number: int) -> int:
        return number * 2

    async def __call__(self, request: Request) -> str:
        return f"{request.method} {request.query_params['a']} {(await request.body()).decode()}"


@pytest.fixture
def url() -> Iterator[str]:
    skate.init(num_cpus=2)
    try:
        serve.start(http_options={"port": 0})
        yield serve.http_address()
    finally:
        serve.shutdown()
        skate.shutdown()


def test_a_graph_answers_requests_and_handles(url: str) -> None:
    with InputNode() as number:
        graph = Model.bind().double.bind(number)
    handle = serve.run(DAGDriver.bind(graph, http_adapter=json_request))
    assert handle.predict.remote(4).result() == 8
    assert httpx.post(f"{url}/anywhere", json=5).json() == 10


def test_several_graphs_answer_at_their_paths(url: str) -> None:
    model = Model.bind()
    with InputNode() as number:
        graphs = {"/double": model.double.bind(number), "/request": model}
        handle = serve.run(DAGDriver.bind(graphs))
    assert handle.predict_with_route.remote("/double", 4).result() == 8
    assert httpx.post(f"{url}/request?a=1", content="body").json() == "POST 1 body"
    assert httpx.get(f"{url}/elsewhere").status_code == 404
    with pytest.raises(serve.exceptions.SkateServeError, match="/triple does not exist"):
        handle.predict_with_route.remote("/triple", 1).result()


def test_a_model_is_the_body() -> None:
    client = TestClient(Echo(Point).app)
    assert client.post("/", json={"x": 1}).json() == {"x": 1, "y": 5}
    assert client.post("/", json={"y": 1}).status_code == 422


def test_a_function_takes_what_its_annotations_say() -> None:
    def adapter(number: int) -> int:
        return number + 1

    client = TestClient(Echo(adapter).app)
    assert client.get("/?number=3").json() == 4
    assert client.get("/").status_code == 422


def test_wrong_adapters_are_refused() -> None:
    assert load_http_adapter("skate.serve.http_adapters.json_request") is json_request
    with pytest.raises(ValueError, match="callable function"):
        load_http_adapter(["no function"])
    with pytest.raises(ValueError, match="type annotated"):
        load_http_adapter(lambda request: request)


@pytest.mark.parametrize("package", ["pydantic", "starlette"])
@pytest.mark.parametrize("module", ["drivers", "http_adapters"])
def test_without_its_packages_a_command_is_named(module: str, package: str) -> None:
    program = (
        f"import sys\nsys.modules[{package!r}] = None\n"
        f"try:\n    import skate.serve.{module}\n"
        "except ImportError as error:\n    print(error)\n"
    )
    said = run_program([sys.executable, "-c", program], check=True).stdout
    assert f"needs the package {package!r}" in said
    assert "[serve]" in said
