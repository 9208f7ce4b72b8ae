"""What is answered, to whom, and what is not said."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request as StarletteRequest
from starlette.websockets import WebSocketDisconnect

from skate.serve._http.asgi import HttpExchange
from skate.serve._http.port_owner import PortOwner
from skate.serve._http.routes import Route
from skate.serve.config import HTTPOptions
from skate.serve.exceptions import DeploymentUnavailableError
from tests.serve.http.certificates import Certificates
from tests.serve.http.shared_port import (
    REQUEST,
    WEBSOCKET,
    A,
    FakeApp,
    SharedPort,
    on_a_loop,
    said,
    shared_port,
)
from tests.support import PATIENCE

# -- what is said -------------------------------------------------------------------------------


class Unavailable(FakeApp):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        raise DeploymentUnavailableError(A, "Traceback ... password=hunter2")


@pytest.mark.parametrize("show_errors", [False, True])
def test_what_failed_to_start_is_nobodys_business(show_errors: bool) -> None:
    @on_a_loop
    async def test() -> None:
        async with shared_port() as here, here.client() as client:
            await here.serve(Unavailable(A, "A"), show_errors=show_errors)
            answer = await client.get("/")
            assert answer.status_code == 503
            assert ("hunter2" in answer.text) == show_errors

    test()


class Reading(FakeApp):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        await StarletteRequest(scope, receive).body()


@on_a_loop
async def test_a_body_that_is_no_http_is_no_error_of_the_program() -> None:
    with LogCapture() as logged:
        async with shared_port() as here:
            await here.serve(Reading(A, "A"))
            head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            assert (await said(here, head + b"-3\r\nabc")).startswith(b"HTTP/1.1 400 ")
            assert (await said(here, head + b"3\r\nabcdef")).startswith(b"HTTP/1.1 400 ")
    assert logged.lines == []


class LogCapture(logging.Handler):
    """What serving logs meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> LogCapture:
        logging.getLogger("skate.serve").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("skate.serve").removeHandler(self)


@on_a_loop
async def test_a_client_cannot_ask_for_more_time_than_there_is() -> None:
    async with shared_port() as here, here.client() as client:
        app = FakeApp(A, "A")
        await here.serve(app, request_timeout_s=0.05)
        app.may_answer.clear()
        for asked in ("0", "-1", "1e9", "inf", "nan", "x"):
            late = await client.get("/", headers={"x-request-timeout-seconds": asked})
            assert (asked, late.status_code) == (asked, 408)
            assert "after 0.05s" in late.text
        sooner = await client.get("/", headers={"x-request-timeout-seconds": "0.01"})
        assert "after 0.01s" in sooner.text


class Stubborn(FakeApp):
    """Goes on with its response when its time is up, as what runs in a thread does."""

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        async def body(text: bytes) -> None:
            await send({"type": "http.response.body", "body": text, "more_body": True})

        await send({"type": "http.response.start", "status": 200, "headers": []})
        await body(b"in time")
        try:
            await asyncio.Event().wait()
        finally:
            await body(b"too late")


@on_a_loop
async def test_nothing_is_sent_when_the_time_is_up() -> None:
    async with shared_port() as here:
        await here.serve(Stubborn(A, "A"), request_timeout_s=0.05)
        heard = await said(here, REQUEST)
        assert (b"in time" in heard, b"too late" in heard) == (True, False)


# -- who may ask --------------------------------------------------------------------------------


@pytest.fixture(params=["given", "environment", "file"])
def token_options(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Options by which the token is "s3cret"."""
    if request.param == "environment":
        monkeypatch.setenv("SKATE_SERVE_AUTH_TOKEN", "s3cret")
        return {}
    if request.param == "file":
        (tmp_path / "token").write_text("s3cret\n")
        return {"auth_token_file": str(tmp_path / "token")}
    return {"auth_token": "s3cret"}


def test_only_who_has_the_token_is_answered(token_options: dict[str, Any]) -> None:
    @on_a_loop
    async def test() -> None:
        async with shared_port() as here, here.client() as client:
            app = FakeApp(A, "A")
            await here.serve(app, **token_options)
            for wrong in (
                "",
                "s3cret",
                "Bearer",
                "Bearer s3cre",
                "Bearer s3cret1",
                "Basic s3cret",
            ):
                headers = {"authorization": wrong} if wrong else {}
                for path in ("/", "/-/routes"):
                    refused = await client.get(path, headers=headers)
                    assert refused.status_code == 401
                    assert refused.headers["www-authenticate"] == "Bearer"
            twice = [("authorization", "Bearer s3cret"), ("authorization", "Bearer x")]
            assert (await client.get("/", headers=twice)).status_code == 401
            assert not app.began.is_set()
            assert (await client.get("/-/healthz")).text == "success"
            right = await client.get("/", headers={"authorization": "bearer s3cret"})
            assert right.text == "A"
            heard = await said(here, WEBSOCKET % b"x")
            assert heard.startswith(b"HTTP/1.1 401 ")

    test()


def test_tokens_stay_secret_and_are_checked(tmp_path: Path) -> None:
    assert "s3cret" not in repr(HTTPOptions(auth_token="s3cret"))
    (tmp_path / "empty").write_text("\n")
    for options in ({"auth_token": ""}, {"auth_token_file": str(tmp_path / "empty")}):
        with pytest.raises(ValueError, match="takes a token of ASCII letters"):
            HTTPOptions(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="auth_token takes a token") as refused:
        HTTPOptions(auth_token="two words")
    assert "two words" not in str(refused.value)
    with pytest.raises(FileNotFoundError):
        HTTPOptions(auth_token_file=str(tmp_path / "missing"))


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def test_clients_without_a_known_certificate_are_refused(certificates: Certificates) -> None:
    tls = {"ssl_keyfile": certificates.key, "ssl_certfile": certificates.cert}

    async def get(here: SharedPort, client: str) -> httpx.Response:
        context = certificates.context(client)
        async with httpx.AsyncClient(verify=context, timeout=PATIENCE) as asking:
            return await asking.get(here.url + "/-/healthz")

    async def asked(**options: Any) -> list[int | str]:
        async with shared_port(**tls, **options) as here:
            here.owner.set_routes({"/": A})
            heard: list[int | str] = []
            for client in ("known", "unknown", "none"):
                try:
                    heard.append((await get(here, client)).status_code)
                except httpx.TransportError:
                    heard.append("refused")
            return heard

    assert asyncio.run(asked()) == [200, 200, 200]
    found = asyncio.run(asked(ssl_ca_certs=certificates.authority))
    assert found == [200, "refused", "refused"]
    with pytest.raises(ValueError, match="ssl_ca_certs takes a file beside ssl_certfile"):
        PortOwner(HTTPOptions(ssl_ca_certs=certificates.authority))


# -- clients that leave ---------------------------------------------------------------------------


def test_a_websocket_whose_client_left_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def nobody(message: Any) -> None:
        raise AssertionError("nobody is there")

    async def answer() -> None:
        raise WebSocketDisconnect(1001)

    async def exchange() -> None:
        scope = {"type": "websocket", "headers": []}
        await HttpExchange(scope, nobody, Route("/", A), HTTPOptions()).run(answer())

    asyncio.run(exchange())
    assert [record for record in caplog.records if record.name == "skate.serve"] == []
