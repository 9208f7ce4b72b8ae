"""Applications of Gradio, with one in its place that answers as it would."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from skate import serve
from skate.serve.gradio_integrations import GradioIngress, GradioServer


class FakeGradio:
    """`gradio.routes.App`."""

    @staticmethod
    def create_app(blocks: Callable[[str], str]) -> Starlette:
        async def predict(request: Request) -> JSONResponse:
            return JSONResponse(blocks((await request.json())["data"]))

        return Starlette(routes=[Route("/predict", predict, methods=["POST"])])


@pytest.fixture(autouse=True)
def gradio(monkeypatch: pytest.MonkeyPatch) -> None:
    routes: Any = ModuleType("gradio.routes")
    routes.App = FakeGradio
    monkeypatch.setitem(sys.modules, "gradio", ModuleType("gradio"))
    monkeypatch.setitem(sys.modules, "gradio.routes", routes)


def greet(name: str) -> str:
    return f"hello {name}"


class Greeter(GradioIngress):
    def __init__(self) -> None:
        super().__init__(lambda: greet)


@pytest.mark.parametrize(
    ("deployment", "arguments"),
    [(GradioServer, (lambda: greet,)), (serve.deployment(Greeter), ())],
    ids=["the deployment", "a class of the user's"],
)
def test_an_application_answers(deployment: Any, arguments: tuple[Any, ...]) -> None:
    servable = deployment.func_or_class(*arguments)
    client = TestClient(servable.__serve_build_asgi_app__())
    assert client.post("/predict", json={"data": "you"}).json() == "hello you"
    assert hasattr(servable, "__serve_start__")  # so that a replica has it answer HTTP
