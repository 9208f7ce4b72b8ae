"""gRPC of an instance of its own: what it is started with, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from functools import partial

import grpc
import psutil
import pytest

import skate
from skate import serve
from skate.serve import _client
from skate.serve._identity import CONTROLLER, GRPC_SERVER
from skate.serve.config import gRPCOptions
from skate.util.state import list_actors
from tests.serve.test_grpc import (
    ADD,
    Greeter,
    Sleeper,
    code_of,
    failure,
    messages,
    named,
    services,
)
from tests.serve.test_own_metrics import values
from tests.support import PATIENCE, eventually

TOKEN = [("authorization", "Bearer secret")]


@pytest.fixture
def session() -> Iterator[None]:
    skate.init(num_cpus=2, _metrics_export_port=0)
    yield
    serve.shutdown()
    skate.shutdown()


@pytest.mark.usefixtures("session")
def test_a_start_that_fails_leaves_nothing_behind() -> None:
    with pytest.raises(ValueError, match="is not a callable function"):
        serve.start(
            proxy_location="Disabled",
            grpc_options={"grpc_servicer_functions": ["ray_test_helpers.__doc__"]},
        )
    assert _client.find() is None
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = gRPCOptions(taken.getsockname()[1], [ADD])
        with pytest.raises(RuntimeError, match="gRPC cannot be answered at"):
            serve.start(proxy_location="Disabled", grpc_options=options)
        assert _client.find() is None
        serve.start(proxy_location="Disabled")
        with pytest.raises(RuntimeError, match="gRPC cannot be answered at"):
            serve.start(proxy_location="Disabled", grpc_options=options)
        assert _client.find() is not None  # which is not that start's


@pytest.mark.usefixtures("session")
def test_limit_of_time_and_end() -> None:
    with pytest.raises(RuntimeError, match="gRPC is not answered"):
        serve.grpc_address()
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
        port = skate.init(ignore_reinit_error=True).address_info["metrics_export_port"]
        for name, tag in [("requests", "status_code"), ("error_requests", "error_code")]:
            tags = {tag: "DEADLINE_EXCEEDED", "method": "__call__", "route": "default"}
            eventually(partial(values, port, f"num_grpc_{name}_total", **tags))
        errors = "num_deployment_grpc_error_requests_total"
        eventually(partial(values, port, errors, deployment="Sleeper"))
        eventually(lambda: values(port, "num_ongoing_grpc_requests") == [0])
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


def taken_after_a_kill(address: tuple[str, int]) -> socket.socket:
    """Kill the process of gRPC, and take its port before the next one does."""
    while True:
        (server,) = list_actors(filters=[("name", "=", GRPC_SERVER)])
        if server.state == "ALIVE":
            with contextlib.suppress(ProcessLookupError):  # its death is not known yet
                os.kill(server.pid, signal.SIGKILL)
            while psutil.pid_exists(server.pid):
                with contextlib.suppress(OSError):
                    return socket.create_server(address)


@pytest.mark.usefixtures("session")
def test_a_port_that_is_taken_after_the_death_of_its_process_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    options = gRPCOptions(address[1], [ADD])
    serve.start(proxy_location="Disabled", grpc_options=options)
    serve.run(Greeter.bind(), route_prefix=None)
    with taken_after_a_kill(address):
        with pytest.raises(RuntimeError, match="cannot be answered at"):
            serve.grpc_address()
        with pytest.raises(RuntimeError, match="cannot be answered at"):
            serve.start(proxy_location="Disabled", grpc_options=options)

    def is_answered() -> bool:
        with grpc.insecure_channel("{}:{}".format(*address)) as channel:
            call = services.UserDefinedServiceStub(channel).__call__
            return bool(code_of(call, *named("you")) == grpc.StatusCode.OK)

    eventually(is_answered)


@pytest.mark.usefixtures("session")
def test_hosts_of_the_newer_internet() -> None:
    options = gRPCOptions(0, [ADD])
    serve.start(proxy_location="Disabled", http_options={"host": "::1"}, grpc_options=options)
    assert serve.grpc_address().startswith("[::1]:")
    serve.run(Greeter.bind(), route_prefix=None)
    with grpc.insecure_channel(serve.grpc_address()) as channel:
        stub = services.UserDefinedServiceStub(channel)
        assert stub.__call__(*named("you"), timeout=PATIENCE).greeting == "hello you"


@pytest.mark.usefixtures("session")
def test_calls_do_not_need_the_controller() -> None:
    serve.start(proxy_location="Disabled", grpc_options=gRPCOptions(0, [ADD]))
    serve.run(Greeter.bind(), route_prefix=None)
    with grpc.insecure_channel(serve.grpc_address()) as channel:
        stub = services.UserDefinedServiceStub(channel)
        assert stub.__call__(*named("you"), timeout=PATIENCE).greeting == "hello you"
        (controller,) = list_actors(filters=[("name", "=", CONTROLLER)])
        os.kill(controller.pid, signal.SIGSTOP)
        try:
            assert stub.__call__(*named("us"), timeout=PATIENCE).greeting == "hello us"
        finally:
            os.kill(controller.pid, signal.SIGCONT)


def test_it_needs_a_process() -> None:
    skate.init(engine="inline")
    try:
        options = gRPCOptions(0, [ADD])
        with pytest.raises(RuntimeError, match="a process of its own"):
            serve.start(proxy_location="Disabled", grpc_options=options)
    finally:
        skate.shutdown()
