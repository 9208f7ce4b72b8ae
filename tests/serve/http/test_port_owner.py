"""The port outlives whoever opened it, and has what it was opened with."""

from __future__ import annotations

import os
import socket
import sys
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError

import pytest
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

import skate
from skate import serve
from skate.serve._identity import CONTROLLER
from skate.serve.config import AutoscalingContext
from tests.serve.test_controller_failures import kill_all, processes
from tests.support import PATIENCE, eventually, run_program


@serve.deployment
async def hello() -> str:
    return "hello"


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            return bool(response.read() == b"hello")
    except (OSError, HTTPException):  # refused, cut off, or too slow
        return False


def test_it_is_the_same_when_all_who_had_it_are_gone() -> None:
    skate.init(num_cpus=2)
    try:
        serve.start(http_options={"port": 0})
        serve.run(hello.bind())
        address = serve.http_address()
        eventually(lambda: answers(address))
        kill_all(CONTROLLER)
        kill_all("SERVE_REPLICA")
        eventually(lambda: answers(address))
        kill_all("SERVE_")  # and its memory
        serve.run(hello.bind())  # nobody remembers it
        eventually(lambda: answers(serve.http_address()))
    finally:
        skate.shutdown()


def test_routes_that_come_after_the_controller_was_killed_are_known_to_all() -> None:
    skate.init(num_cpus=2)
    try:
        serve.start(http_options={"port": 0})
        serve.run(hello.options(num_replicas=2).bind())
        killed = processes(CONTROLLER)
        kill_all(CONTROLLER)
        eventually(lambda: processes(CONTROLLER) not in ([], killed))
        serve.run(serve.deployment(lambda: "new").bind(), name="new", route_prefix="/new")
        for _ in range(20):  # whoever accepts it
            with urllib.request.urlopen(f"{serve.http_address()}/new", timeout=10) as response:
                assert response.read() == b"new"
    finally:
        skate.shutdown()


def test_a_route_may_come_later() -> None:
    skate.init(num_cpus=2)
    try:
        serve.start(http_options={"port": 0})
        serve.run(hello.bind(), route_prefix=None)
        (before,) = processes("SERVE_REPLICA")
        assert not answers(serve.http_address())
        serve.run(hello.bind(), route_prefix="/", keep_unchanged=True)
        eventually(lambda: answers(serve.http_address()))
        assert processes("SERVE_REPLICA") == [before]
    finally:
        skate.shutdown()


def test_it_stays_while_applications_come_and_go() -> None:
    skate.init(num_cpus=2)
    try:
        serve.start(http_options={"port": 0})
        address = serve.http_address()
        port = int(address.rpartition(":")[2])
        for name in ("one", "two", "one"):
            serve.run(hello.bind(), name=name, route_prefix=f"/{name}")
            assert serve.http_address() == address
            eventually(lambda: answers(f"{address}/one"))
        serve.delete("one")
        serve.delete("two")
        serve.run(hello.bind())
        eventually(lambda: answers(address))
        program = f"from skate import serve; serve.start(http_options={{'port': {port}}})"
        other = run_program([sys.executable, "-c", program], timeout=PATIENCE)
        assert f"127.0.0.1:{port}: another program listens there" in other.stderr
        assert "port 0 takes any that is free" in other.stderr
        assert answers(address)
    finally:
        skate.shutdown()


class Marks:
    """A middleware: an ASGI application around another."""

    def __init__(self, app: Any, mark: str) -> None:
        self.app = app
        self.mark = mark

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-mark", self.mark.encode())]
            await send(message)

        await self.app(scope, receive, marked)


ENVIRONMENT = {"runtime_env": {"env_vars": {"SKATE_TEST_REPLICAS": "2"}}}


def as_many_as_the_controller_was_told(context: AutoscalingContext) -> int:
    return int(os.environ["SKATE_TEST_REPLICAS"])


def marking() -> list[Middleware]:
    return [Middleware(Marks, mark="by the environment")]


def test_middlewares_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in (("nowhere:f", "cannot be imported"), ("os:sep", "not callable")):
        monkeypatch.setenv("RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH", path)
        with pytest.raises((TypeError, ValueError), match=text):
            serve.start(http_options={"port": 0})
    monkeypatch.setenv("RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH", "os:getcwd")
    with pytest.raises(TypeError, match="must return a list of Starlette middlewares"):
        serve.start(http_options={"port": 0})
    monkeypatch.setenv("RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH", f"{__name__}:marking")
    try:
        serve.start(http_options={"port": 0})
        serve.run(hello.bind())
        with urllib.request.urlopen(serve.http_address(), timeout=PATIENCE) as response:
            assert response.headers["x-mark"] == "by the environment"
    finally:
        skate.shutdown()


def status_of(address: str, host: str) -> int:
    """What a browser gets that was told that `host` is at the address."""
    request = urllib.request.Request(address, headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return int(response.status)
    except HTTPError as error:
        return error.code


def test_names_of_others_are_refused_where_the_application_says_its_own() -> None:
    """A page of a stranger can have its own name lead to 127.0.0.1, and read the answers."""
    skate.init(num_cpus=2)
    try:
        own = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "*.example.org"])
        serve.start(http_options={"port": 0, "middlewares": [own]})
        serve.run(hello.bind())
        address = serve.http_address()
        assert answers(address)
        assert status_of(address, "models.example.org") == 200
        assert status_of(address, "rebound.example.com:80") == 400
    finally:
        skate.shutdown()


def test_it_goes_with_a_session_whose_actors_live_in_the_program(leaves_nothing: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for _ in range(2):
        with skate.init(engine="inline"):
            serve.start(http_options={"port": port})
            serve.run(hello.bind())
            assert answers(serve.http_address())
        assert not answers(f"http://127.0.0.1:{port}")


def test_run_takes_the_address_as_it_did_once() -> None:
    with pytest.raises(TypeError, match="prot"):
        serve.run(hello.bind(), port=0, prot=1)  # type: ignore[call-arg]
    assert not skate.is_initialized()
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    try:
        serve.run(hello.bind(), host="localhost", port=port)  # type: ignore[call-arg]
        assert answers(f"http://localhost:{port}/")
    finally:
        skate.shutdown()


def test_what_an_instance_is_started_with() -> None:
    scaling = {"max_replicas": 2, "upscale_delay_s": 0, "metrics_interval_s": 0.02}
    policy = {"policy": as_many_as_the_controller_was_told}
    skate.init(num_cpus=2)
    try:
        options = {"port": 0, "middlewares": [Middleware(Marks, mark="seen")]}
        serve.start(http_options=options, controller_options=ENVIRONMENT)
        serve.run(hello.options(autoscaling_config={**scaling, **policy}).bind())
        with urllib.request.urlopen(serve.http_address(), timeout=PATIENCE) as response:
            assert response.headers["x-mark"] == "seen"
        eventually(lambda: answers(serve.http_address()) and len(processes("SERVE_REPLICA")) == 2)
        with pytest.warns(UserWarning, match="asked for was root_path='/other'"):
            serve.start(http_options={"root_path": "/other"})
        with pytest.warns(UserWarning, match="the controller that there is"):
            serve.start(controller_options=ENVIRONMENT)
    finally:
        skate.shutdown()
