"""gRPC: methods of the user's services, answered by replicas."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import grpc
import pytest

from ray_test_helpers import serve_messages, serve_services
from skate import serve
from skate.serve._grpc.calls import GrpcCall
from skate.serve.config import gRPCOptions
from skate.serve.grpc_util import RayServegRPCContext, gRPCInputStream
from tests.support import PATIENCE, eventually

messages: Any = serve_messages
services: Any = serve_services
ADD = "ray_test_helpers.serve_services.add_UserDefinedServiceServicer_to_server"


@serve.deployment
class Greeter:
    def __call__(self, message: Any) -> Any:
        return messages.UserDefinedResponse(greeting=f"hello {message.name}")

    async def Method1(self, message: Any, grpc_context: RayServegRPCContext) -> Any:  # noqa: N802
        if message.name == "nobody":
            grpc_context.set_code(grpc.StatusCode.UNAUTHENTICATED)
            grpc_context.set_details("who are you?")
            raise ValueError("nobody")
        if message.name == "nothing":
            raise ValueError("nothing to greet")
        if message.name == "text":
            return "hello"
        grpc_context.set_trailing_metadata([("model", grpc_context.multiplexed_model_id())])
        return messages.UserDefinedResponse(greeting=serve.get_multiplexed_model_id())

    def Streaming(self, message: Any, grpc_context: Any) -> Iterator[Any]:  # noqa: N802
        grpc_context.set_compression(grpc.Compression.Gzip)
        for number in range(message.num):
            yield messages.UserDefinedResponse(num_x2=number * 2)

    async def ClientStreaming(  # noqa: N802
        self, stream: gRPCInputStream[Any], grpc_context: RayServegRPCContext
    ) -> Any:
        grpc_context.set_compression(grpc.Compression.Gzip)
        names = [message.name async for message in stream]
        assert stream.is_exhausted
        return messages.UserDefinedResponse(greeting=" ".join(names))

    async def BidiStreaming(self, stream: gRPCInputStream[Any]) -> Any:  # noqa: N802
        async for message in stream:
            yield messages.UserDefinedResponse(greeting=message.name)


@serve.deployment
class Uploads:
    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.ended: asyncio.Queue[str] = asyncio.Queue()

    async def ClientStreaming(self, stream: gRPCInputStream[Any]) -> Any:  # noqa: N802
        how = "cancelled"
        try:
            async for message in stream:
                self.begun.put_nowait(message.name)
            how = "whole"
        finally:
            self.ended.put_nowait(how)
        return messages.UserDefinedResponse()

    async def next_begun(self) -> str:
        return await self.begun.get()

    async def next_ended(self) -> str:
        return await self.ended.get()


@serve.deployment
class Sleeper:
    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, message: Any) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    async def until_begun(self) -> bool:
        return await self.begun.wait()

    async def until_ended(self) -> bool:
        return await self.ended.wait()


@serve.deployment
class Secretive:
    def __init__(self) -> None:
        raise ValueError("the password is 1234")


def named(*names: str) -> Iterator[Any]:
    return iter([messages.UserDefinedMessage(name=name) for name in names])


def start(timeout_s: float | None = None) -> Any:
    options = gRPCOptions(0, [ADD], timeout_s)
    serve.start(proxy_location="Disabled", grpc_options=options)
    return grpc.insecure_channel(serve.grpc_address())


@pytest.fixture
def stub(run_locally: Callable[..., Any]) -> Iterator[Any]:
    run_locally(Greeter.bind(), name="greeter", route_prefix=None)
    with start() as channel:
        yield services.UserDefinedServiceStub(channel)


def failure(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, str]:
    with pytest.raises(grpc.RpcError) as info:
        call(*args, timeout=PATIENCE, **kwargs)
    error: Any = info.value
    return error.code(), error.details()


def test_servicer_functions_that_are_no_list_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"takes a list of import paths; got 'shop.add'"):
        gRPCOptions(grpc_servicer_functions="shop.add")  # type: ignore[arg-type]


def test_methods_are_answered(stub: Any) -> None:
    (you,) = named("you")
    sent = [("application", "greeter"), ("request_id", "one"), ("multiplexed_model_id", "m")]
    answer, call = stub.__call__.with_call(you, metadata=sent)
    assert answer.greeting == "hello you"
    assert call.trailing_metadata() == (("request_id", "one"),)
    answer, call = stub.Method1.with_call(you, metadata=sent)
    assert answer.greeting == "m"
    assert call.trailing_metadata() == (("request_id", "one"), ("model", "m"))


def test_streams_go_both_ways(stub: Any) -> None:
    items = stub.Streaming(messages.UserDefinedMessage(num=3))
    assert [item.num_x2 for item in items] == [0, 2, 4]
    assert stub.ClientStreaming(named("a", "b")).greeting == "a b"
    for _ in range(20):  # the end of messages and the first answer may be at the same time
        assert [item.greeting for item in stub.BidiStreaming(named("a", "b"))] == ["a", "b"]


@serve.deployment
def no_methods(message: object) -> None: ...


def test_what_goes_wrong_has_a_status(stub: Any, run_locally: Callable[..., Any]) -> None:
    (nobody,), (nothing,) = named("nobody"), named("nothing")
    assert failure(stub.Method1, nobody) == (grpc.StatusCode.UNAUTHENTICATED, "who are you?")
    assert failure(stub.Method1, nothing)[0] == grpc.StatusCode.INTERNAL
    assert failure(stub.Method1, *named("text"))[0] == grpc.StatusCode.INTERNAL
    code, text = failure(stub.Method2, messages.UserDefinedMessage2())
    assert (code, text) == (
        grpc.StatusCode.UNIMPLEMENTED,
        "Method2 is no method of the application's deployment Greeter",
    )
    run_locally(no_methods.bind(), name="function", route_prefix=None)
    code, _ = failure(
        lambda *args, **kwargs: list(stub.Streaming(*args, **kwargs)),
        nobody,
        metadata=[("application", "function")],
    )
    assert code == grpc.StatusCode.UNIMPLEMENTED
    code, text = failure(stub.Method1, nobody, metadata=[("application", "other")])
    assert (code, "'other' not found" in text) == (grpc.StatusCode.NOT_FOUND, True)


def test_why_there_is_no_replica_is_not_told(stub: Any, run_locally: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="1234"):
        run_locally(Secretive.bind(), name="secretive", route_prefix=None)
    (you,) = named("you")
    code, text = failure(stub.__call__, you, metadata=[("application", "secretive")])
    assert (code, "Secretive" in text) == (grpc.StatusCode.UNAVAILABLE, True)
    assert "1234" not in text


def test_an_application_is_named_where_there_are_several(
    stub: Any, run_locally: Callable[..., Any]
) -> None:
    run_locally(Sleeper.bind(), name="sleeper", route_prefix=None)
    (you,) = named("you")
    assert failure(stub.__call__, you)[0] == grpc.StatusCode.NOT_FOUND
    assert stub.__call__(you, metadata=[("application", "greeter")]).greeting == "hello you"


def code_of(call: Any, *args: Any, **kwargs: Any) -> Any:
    call = call.future(*args, timeout=PATIENCE, **kwargs)
    call.exception()
    return call.code()


def test_another_deployment_in_front_of_an_application_is_found(
    stub: Any, run_locally: Callable[..., Any]
) -> None:
    (you,), greeter = named("you"), [("application", "greeter")]
    assert code_of(stub.__call__, you, metadata=greeter) == grpc.StatusCode.OK
    run_locally(Greeter.options(name="Other").bind(), name="greeter", route_prefix=None)
    eventually(lambda: code_of(stub.__call__, you, metadata=greeter) == grpc.StatusCode.OK)
    serve.delete("greeter")
    eventually(lambda: code_of(stub.__call__, you, metadata=greeter) == grpc.StatusCode.NOT_FOUND)


def test_the_server_says_how_it_is(stub: Any) -> None:
    with grpc.insecure_channel(serve.grpc_address()) as channel:
        api = services.RayServeAPIServiceStub(channel)
        names = api.ListApplications(messages.ListApplicationsRequest()).application_names
        assert list(names) == ["greeter"]
        assert api.Healthz(messages.HealthzRequest()).message == "success"


def test_a_call_that_nobody_waits_for_is_cancelled(run_locally: Callable[..., Any]) -> None:
    handle = run_locally(Sleeper.bind(), name="sleeper", route_prefix=None)
    with start() as channel:
        call = services.UserDefinedServiceStub(channel).__call__.future(*named("you"))
        assert handle.until_begun.remote().result(PATIENCE)
        call.cancel()
        assert handle.until_ended.remote().result(PATIENCE)


def test_messages_of_a_client_that_cancels_are_not_taken_for_all_of_them(
    run_locally: Callable[..., Any],
) -> None:
    handle = run_locally(Uploads.bind(), name="uploads", route_prefix=None)
    with start() as channel:
        upload = services.UserDefinedServiceStub(channel).ClientStreaming
        for _ in range(10):
            is_cancelled = threading.Event()

            def first_part(until: threading.Event = is_cancelled) -> Iterator[Any]:
                yield from named("first part")
                until.wait(PATIENCE)

            call = upload.future(first_part())
            assert handle.next_begun.remote().result(PATIENCE) == "first part"
            call.cancel()
            is_cancelled.set()
            assert handle.next_ended.remote().result(PATIENCE) == "cancelled"


def test_one_server_answers_as_it_was_started(run_locally: Callable[..., Any]) -> None:
    with start():
        address = serve.grpc_address()
    with start():
        assert serve.grpc_address() == address
    with pytest.warns(UserWarning, match=r"goes on with that.*request_timeout_s=7"):
        start(timeout_s=7).close()
    assert serve.grpc_address() == address


class EndlessResponse:
    def __init__(self) -> None:
        self.is_cancelled = False

    async def __anext__(self) -> bytes:
        return b"more"

    def cancel(self) -> None:
        self.is_cancelled = True


def test_a_stream_can_be_closed_by_another_task() -> None:
    """As by the event loop, when the client of a stream is gone."""
    response = EndlessResponse()
    handle = MagicMock()
    handle.options.return_value.remote.return_value = response

    async def handle_of(application: str | None) -> Any:
        return handle

    async def first(items: Any) -> bytes:
        item: bytes = await anext(items)
        return item

    async def read_and_close() -> None:
        server = MagicMock(timeout_s=None, handle_of=handle_of)
        call = GrpcCall(server, "/Service/Method", takes_stream=False)
        items: Any = call.stream(None, MagicMock())
        assert await asyncio.create_task(first(items)) == b"more"
        await items.aclose()

    asyncio.run(read_and_close())
    assert response.is_cancelled
