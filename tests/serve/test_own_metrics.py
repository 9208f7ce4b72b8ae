"""What serve measures by itself, as Prometheus collects it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI, HTTPException

import skate
from skate import serve
from skate.serve.context import RequestContext
from tests.support import PATIENCE, eventually

_INNER = {"deployment": "Inner", "application": "shop"}
_FRONT = {"deployment": "Front", "application": "shop"}


def values(port: int, name: str, **tags: str) -> list[float]:
    """Return the numbers of that name which have these tags."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE).text
    wanted = [f'{key}="{value}"' for key, value in tags.items()]
    return [
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith(f"ray_serve_{name}{{") and all(tag in line for tag in wanted)
    ]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Yield the port of metrics, after some requests to a shop with a deployment behind it."""
    app = FastAPI()

    @serve.deployment
    class Inner:
        def __call__(self, value: int) -> float:
            return 1 / value

        @serve.multiplexed(max_num_models_per_replica=1)
        async def model(self, model_id: str) -> str:
            return model_id

        async def ask(self, model_id: str) -> str:
            found: str = await self.model(model_id)
            return found

    @serve.deployment
    @serve.ingress(app)
    class Front:
        def __init__(self, inner: serve.handle.DeploymentHandle) -> None:
            self.inner = inner

        @app.get("/items/{value}")
        async def item(self, value: int) -> float:
            found: float = await self.inner.remote(value)
            return found

        @app.get("/teapot")
        async def teapot(self) -> None:
            raise HTTPException(418)

    context = skate.init(num_cpus=2, _metrics_export_port=0)
    serve.start(http_options={"port": 0})
    serve.run(Front.bind(Inner.bind()), name="shop", route_prefix="/shop")
    inner = serve.get_deployment_handle("Inner", "shop")
    assert [inner.ask.remote(model).result() for model in "aab"] == ["a", "a", "b"]
    paths = ["shop/items/1", "shop/items/2", "shop/items/0", "shop/teapot", "nowhere"]
    answers = [httpx.get(f"{serve.http_address()}/{path}", timeout=PATIENCE) for path in paths]
    assert [answer.status_code for answer in answers] == [200, 200, 500, 418, 404]
    number: int = context.address_info["metrics_export_port"]
    eventually(lambda: values(number, "num_http_requests_total", status_code="404") == [1])
    yield number
    serve.shutdown()
    skate.shutdown()


@pytest.mark.parametrize(
    ("name", "tags", "number"),
    [
        ("num_http_requests_total", {"route": "/shop/items/{value}", "status_code": "200"}, 2),
        ("num_http_requests_total", {"route": "/shop/items/{value}", "status_code": "500"}, 1),
        ("num_http_requests_total", {"route": "", "application": ""}, 1),
        ("num_http_error_requests_total", {"error_code": "418", "method": "GET"}, 1),
        ("num_deployment_http_error_requests_total", {"error_code": "500", **_FRONT}, 1),
        ("http_request_latency_ms_count", {"status_code": "200", "application": "shop"}, 2),
        ("deployment_request_counter_total", {"route": "/shop/items/{value}", **_FRONT}, 2),
        ("deployment_request_counter_total", {"route": "/shop/items/{value}", **_INNER}, 2),
        ("deployment_request_counter_total", {"route": "", **_INNER}, 3),
        ("deployment_error_counter_total", {"exception_type": "ZeroDivisionError", **_INNER}, 1),
        ("deployment_processing_latency_ms_count", _INNER, 6),
        ("replica_processing_queries", _INNER, 0),
        ("deployment_replica_healthy", _INNER, 1),
        ("deployment_replica_starts_total", _FRONT, 1),
        ("num_router_requests_total", {"route": "/shop/items/{value}", **_INNER}, 3),
        ("deployment_queued_queries", _INNER, 0),
        ("num_ongoing_http_requests", {}, 0),
        ("application_status", {"application": "shop"}, 6),
        ("deployment_status", _INNER, 6),
        ("num_ongoing_requests_at_replicas", _INNER, 0),
        ("num_multiplexed_models", _INNER, 1),
        ("registered_multiplexed_model_id", {"model_id": "b", **_INNER}, 1),
        ("multiplexed_get_model_requests_counter_total", _INNER, 3),
        ("multiplexed_models_load_counter_total", _INNER, 2),
        ("multiplexed_models_unload_counter_total", _INNER, 1),
        ("multiplexed_model_load_latency_ms_count", _INNER, 2),
    ],
)
def test_requests_are_counted_where_they_end(
    port: int, name: str, tags: dict[str, str], number: float
) -> None:
    # A process that is slow to answer is left out.
    eventually(lambda: sum(values(port, name, **tags)) == number)


def test_who_does_not_answer_is_not_counted_as_one_who_does(port: int) -> None:
    assert values(port, "num_deployment_http_error_requests_total", error_code="404") == []


def test_the_pattern_of_a_request_is_the_route_where_there_is_no_application() -> None:
    assert RequestContext("/shop").pattern == "/shop"
