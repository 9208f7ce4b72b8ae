"""gRPC of an instance of its own: what it is started with, and its end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import grpc
import pytest

import skate
from skate import serve
from skate.serve._identity import GRPC_SERVER
from skate.serve.config import gRPCOptions
from skate.util.state import list_actors
from tests.serve.test_grpc import ADD, Greeter, Sleeper, failure, messages, named, services
from tests.support import PATIENCE

TOKEN = [("authorization", "Bearer secret")]


@pytest.fixture
def session() -> Iterator[None]:
    skate.init(num_cpus=2)
    yield
    serve.shutdown()
    skate.shutdown()


@pytest.mark.usefixtures("session")
def test_limit_of_time_and_end() -> None:
    with pytest.raises(ValueError, match="is not a callable function"):
        serve.start(grpc_options={"grpc_servicer_functions": ["ray_test_helpers.__doc__"]})
    with pytest.raises(RuntimeError, match="gRPC is not answered"):
        serve.grpc_address()
    serve.shutdown()
    options = gRPCOptions(0, [ADD], request_timeout_s=0.2)
    serve.start(proxy_location="Disabled", grpc_options=options)
    handle = serve.run(Sleeper.bind(), route_prefix=None)
    begun = handle.until_begun.remote()
    with grpc.insecure_channel(serve.grpc_address()) as channel:
        call = services.UserDefinedServiceStub(channel).__call__
        (you,) = named("you")
        reached = False
        while not reached:  # the first calls may be too late before they are at the replica
            code, text = failure(call, you)
            assert (code, "timed out" in text) == (grpc.StatusCode.DEADLINE_EXCEEDED, True)
            try:
                reached = begun.result(0.01)
            except TimeoutError:
                pass
        assert handle.until_ended.remote().result(PATIENCE)
        serve.shutdown()
        assert failure(call, you)[0] == grpc.StatusCode.UNAVAILABLE


def check_token() -> None:
    with grpc.insecure_channel(serve.grpc_address()) as channel:
        (you,) = named("you")
        call = services.UserDefinedServiceStub(channel).__call__
        assert failure(call, you)[0] == grpc.StatusCode.UNAUTHENTICATED
        assert failure(call, you, metadata=TOKEN)[0] == grpc.StatusCode.NOT_FOUND
        api, nothing = services.RayServeAPIServiceStub(channel), messages.ListApplicationsRequest()
        assert failure(api.ListApplications, nothing)[0] == grpc.StatusCode.UNAUTHENTICATED
        assert not api.ListApplications(nothing, metadata=TOKEN).application_names
        assert api.Healthz(messages.HealthzRequest()).message == "success"
        not_read = channel.unary_unary("/ray.serve.UserDefinedService/__call__")
        assert failure(not_read, b"no message at all")[0] == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.usefixtures("session")
def test_the_token_is_that_of_http_which_runs() -> None:
    serve.start(http_options={"port": 0, "auth_token": "secret"})
    serve.start(grpc_options=gRPCOptions(0, [ADD]))
    check_token()


@pytest.mark.usefixtures("session")
def test_there_is_a_token_without_http_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKATE_SERVE_AUTH_TOKEN", "secret")
    serve.start(proxy_location="Disabled", grpc_options=gRPCOptions(0, [ADD]))
    check_token()


@pytest.mark.usefixtures("session")
def test_it_is_answered_again_after_the_death_of_its_process() -> None:
    serve.start(proxy_location="Disabled", grpc_options=gRPCOptions(0, [ADD]))
    serve.run(Greeter.bind(), route_prefix=None)
    (server,) = list_actors(filters=[("name", "=", GRPC_SERVER)])
    os.kill(server.pid, signal.SIGKILL)
    with grpc.insecure_channel(serve.grpc_address()) as channel:
        stub = services.UserDefinedServiceStub(channel)
        assert stub.__call__(*named("you"), timeout=PATIENCE).greeting == "hello you"


def test_it_needs_a_process() -> None:
    skate.init(engine="inline")
    try:
        options = gRPCOptions(0, [ADD])
        with pytest.raises(RuntimeError, match="a process of its own"):
            serve.start(proxy_location="Disabled", grpc_options=options)
        serve.shutdown()
    finally:
        skate.shutdown()
