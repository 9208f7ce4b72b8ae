"""What clients are told of errors, over HTTP and by gRPC alike: nothing of their text, unless that
is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import httpx
import pytest

import skate
from ray_test_helpers import serve_messages, serve_services
from skate import serve
from skate.serve._grpc.calls import GrpcCall
from skate.serve.config import gRPCOptions
from tests.support import PATIENCE

messages: Any = serve_messages
services: Any = serve_services
ADD = "ray_test_helpers.serve_services.add_UserDefinedServiceServicer_to_server"
SECRET = "the password is 1234"


@serve.deployment
class Fails:
    def __call__(self, request: object) -> None:
        raise ValueError(SECRET)

    def Method1(self, message: object, grpc_context: Any) -> None:  # noqa: N802
        grpc_context.set_code(grpc.StatusCode.UNAUTHENTICATED)
        raise ValueError(SECRET)


class FailsToStart:
    def __init__(self) -> None:
        raise ValueError(SECRET)


def over_http(app: str) -> str:
    answer = httpx.get(f"{serve.http_address()}/{app}", timeout=PATIENCE)
    assert answer.status_code in (500, 503)
    return answer.text


def by_grpc(app: str, method: str = "__call__") -> str:
    with grpc.insecure_channel(serve.grpc_address()) as channel:
        call = getattr(services.UserDefinedServiceStub(channel), method)
        sent = [("application", app), ("request_id", "id-of-mine")]
        with pytest.raises(grpc.RpcError) as info:
            call(messages.UserDefinedMessage(), metadata=sent, timeout=PATIENCE)
    error: Any = info.value
    assert error.code() in (
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNAUTHENTICATED,
    )
    return str(error.details())


@pytest.fixture(scope="module", params=[False, True])
def shows(request: pytest.FixtureRequest) -> Iterator[bool]:
    skate.init(num_cpus=2)
    http = {"port": 0, "show_errors": request.param}
    serve.start(http_options=http, grpc_options=gRPCOptions(0, [ADD]))
    serve.run(Fails.bind(), name="fails", route_prefix="/fails")
    starts = serve.deployment(FailsToStart).bind()
    with pytest.raises(RuntimeError):
        serve.run(starts, name="starts", route_prefix="/starts")
    yield request.param
    serve.shutdown()
    skate.shutdown()


@pytest.mark.parametrize("app", ["fails", "starts"])
@pytest.mark.parametrize("ask", [over_http, by_grpc])
def test_text_of_errors(shows: bool, ask: Callable[[str], str], app: str) -> None:
    assert (SECRET in ask(app)) == shows


def test_what_is_not_shown_can_be_found_in_the_log(shows: bool) -> None:
    if not shows:
        assert by_grpc("fails") == "Internal error in the request id-of-mine"


def test_a_status_that_was_set_does_not_show_the_error(shows: bool) -> None:
    assert (SECRET in by_grpc("fails", "Method1")) == shows


class Server:
    shows_errors = False


def test_programs_for_ray_are_told_as_ray_does(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = Server()
    call = GrpcCall(server, "/Service/Method", takes_stream=False)
    assert SECRET not in call._status_of(ValueError(SECRET), "id")[1]
    monkeypatch.setenv("SKATE_AS_RAY", "1")
    assert call._status_of(ValueError(SECRET), "id") == (grpc.StatusCode.INTERNAL, SECRET)
