"""FastAPI applications in classes, without a server."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import fastapi
import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from skate.serve._http import fastapi_support
from skate.serve._http.ingress import ingress


def ask(cls: type, *paths: str, method: str = "GET") -> list[Any]:
    """The JSON that an instance answers to requests, one after the other."""

    async def run() -> list[Any]:
        servable: Any = cls()
        app = await servable.__serve_start__()
        fastapi_support.current.set(servable)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answers = [await client.request(method, path) for path in paths]
        await servable.__serve_stop__()
        return [answer.json() for answer in answers]

    return asyncio.run(run())


def counter(app: Any) -> type:
    class Counter:
        def __init__(self) -> None:
            self.count = 40

        @app.get("/add/{number}")
        def add(self, number: int, times: int = 1) -> int:
            self.count += number * times
            return self.count

        @app.post("/")
        async def first(self) -> str:
            return "post"

        @app.put("/")  # type: ignore[no-redef]
        async def first(self) -> str:  # noqa: F811 - both are endpoints
            return "put"

        def not_an_endpoint(self) -> int:
            return self.count

    return Counter


def test_methods_are_endpoints_with_their_object() -> None:
    app = fastapi.FastAPI()
    cls = ingress(app)(counter(app))
    assert ask(cls, "/add/1", "/add/1?times=3") == [41, 44]
    assert ask(cls, "/", method="POST") == ["post"]
    assert ask(cls, "/", method="PUT") == ["put"]
    assert cls().not_an_endpoint() == 40
    assert cls.__name__ == "Counter"


def test_parameters_do_not_show_self() -> None:
    app = fastapi.FastAPI()
    (schema,) = ask(ingress(app)(counter(app)), "/openapi.json")
    names = [each["name"] for each in schema["paths"]["/add/{number}"]["get"]["parameters"]]
    assert names == ["number", "times"]
    assert "example" not in schema["paths"]["/add/{number}"]["get"]["parameters"][0]


def test_bad_input_is_the_clients_mistake() -> None:
    app = fastapi.FastAPI()
    (answer,) = ask(ingress(app)(counter(app)), "/add/many")
    assert answer["detail"][0]["loc"] == ["path", "number"]


def test_arrays_are_answers() -> None:
    app = fastapi.FastAPI()
    app.get("/array")(lambda: {"array": np.arange(2), "number": np.float32(1.5)})
    assert ask(ingress(app)(), "/array") == [{"array": [0, 1], "number": 1.5}]


def test_routes_that_come_later_are_not_in_it() -> None:
    app = fastapi.FastAPI()
    cls = ingress(app)(counter(app))
    app.get("/late")(lambda: 1)
    assert ask(cls, "/late") == [{"detail": "Not Found"}]


def test_classes_that_share_an_application_have_their_own_methods() -> None:
    app = fastapi.FastAPI()

    @ingress(app)
    class First:
        @app.get("/")
        def name(self) -> str:
            return "first"

    @ingress(app)
    class Second:
        @app.get("/")
        def name(self) -> str:
            return "second"

    assert ask(First, "/") == ["first"]
    assert ask(Second, "/") == ["second"]


def test_inherited_endpoints() -> None:
    app = fastapi.FastAPI()

    class Base:
        value = "base"

        @app.get("/value")
        def get_value(self) -> str:
            return self.value

    @ingress(app)
    class One(Base):
        value = "one"

    @ingress(app)
    class Two(Base):
        value = "two"

    assert ask(One, "/value") == ["one"]
    assert ask(Two, "/value") == ["two"]


@pytest.mark.parametrize("prefix", ["", "/outer"])
def test_endpoints_of_routers(prefix: str) -> None:
    app, router = fastapi.FastAPI(), fastapi.APIRouter(prefix="/inner")

    class Inside:
        @router.get("/name")
        def name(self) -> str:
            return type(self).__name__

    app.include_router(router, prefix=prefix)
    assert ask(ingress(app)(Inside), f"{prefix}/inner/name") == ["Inside"]


def test_startup_and_shutdown_run_around_the_requests() -> None:
    seen: list[str] = []

    def build() -> Any:
        @asynccontextmanager
        async def lifespan(app: Any) -> Any:
            seen.append("up")
            yield
            seen.append("down")

        app = fastapi.FastAPI(lifespan=lifespan)
        app.get("/seen")(lambda: list(seen))
        return app

    assert ask(ingress(build)(), "/seen") == [["up"]]
    assert seen == ["up", "down"]


def test_a_failing_startup_is_told() -> None:
    def build() -> Any:
        @asynccontextmanager
        async def lifespan(app: Any) -> Any:
            raise ValueError("no database")
            yield

        return fastapi.FastAPI(lifespan=lifespan)

    with pytest.raises(RuntimeError, match="no database"):
        ask(ingress(build)(), "/")


def test_any_asgi_application_and_the_class_can_build_it() -> None:
    @ingress()
    class Builds:
        def __serve_build_asgi_app__(self) -> Any:
            async def home(request: Any) -> Any:
                return PlainTextResponse('"built"')

            return Starlette(routes=[Route("/", home)])

    assert ask(Builds, "/") == ["built"]


def callable_class() -> type:
    class WithCall:
        def __call__(self) -> None: ...

    return WithCall


@pytest.mark.parametrize(
    ("app", "target", "text"),
    [
        (fastapi.FastAPI(), lambda: 1, "must be used with a class"),
        (fastapi.FastAPI(), callable_class(), "may not have __call__"),
        (None, int, "__serve_build_asgi_app__"),
    ],
)
def test_what_cannot_be_an_ingress(app: Any, target: Callable[..., Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ingress(app)(target)


def test_applications_with_routers_and_state_can_be_pickled() -> None:
    app, router = fastapi.FastAPI(), fastapi.APIRouter()
    app.include_router(router)
    app.state.answer = 42
    ingress(app)()
    copy = pickle.loads(pickle.dumps(app.state))
    assert copy.answer == 42
