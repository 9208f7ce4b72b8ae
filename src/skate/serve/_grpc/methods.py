"""The methods that a server of gRPC answers: the user's, by calls of handles, and its own.

Which methods the user's services have, generated functions say (`add_…Servicer_to_server`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate._core.protocol_buffers import field
from skate.serve._application.import_paths import NothingThereError, import_attribute
from skate.serve._grpc.calls import GrpcCall

if TYPE_CHECKING:
    from skate.serve._grpc.call_context import CallContext
    from skate.serve._grpc.server import GrpcServer

API = "/ray.serve.RayServeAPIService/"  # which Ray answers as well
HEALTH = f"{API}Healthz"  # for load balancers, which have no token


def servicer_function(path: object) -> Callable[[object, object], None]:
    """Return the generated function that an import path stands for.

    Raises:
        ModuleNotFoundError: If there is no such module.
        ValueError: If there is no function at the path.
    """
    try:
        found = import_attribute(path) if isinstance(path, str) else path
    except (ImportError, NothingThereError) as error:
        raise ModuleNotFoundError(
            f"{path} can't be imported! grpc_servicer_functions takes import paths of generated "
            f"functions, such as shop_pb2_grpc.add_ShopServicer_to_server ({error})"
        ) from error
    if not callable(found):
        raise ValueError(f"{path} is not a callable function! It is {found!r}")
    function: Callable[[object, object], None] = found
    return function


class _AnyServicer:
    """Given to generated functions, which only look up its methods."""

    def __getattr__(self, name: str) -> object:
        return None


class _Recorder:
    """Given to a generated function in the place of a server: keeps what it adds."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self.handlers.extend(handlers)

    def add_registered_method_handlers(self, service_name: str, handlers: Any) -> None:
        """Keep nothing: the generic handlers have the same methods."""


def add_forwarded(server: Any, add_servicer: Callable[..., None], calls: GrpcServer) -> list[str]:
    """Let a server answer the methods of a service by calls of handles; return its names."""
    import grpc

    recorder = _Recorder()
    add_servicer(_AnyServicer(), recorder)
    makers: dict[tuple[bool, bool], Callable[..., Any]] = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }

    class Forwarding(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            for handler in recorder.handlers:
                found = handler.service(details)
                if found is not None:
                    call = GrpcCall(calls, details.method, found.request_streaming)
                    make = makers[found.request_streaming, found.response_streaming]
                    answer = call.stream if found.response_streaming else call.answer
                    return make(answer, request_deserializer=found.request_deserializer)
            return None

    server.add_generic_rpc_handlers((Forwarding(),))
    return [handler.service_name() for handler in recorder.handlers]


def add_own_service(server: Any, calls: GrpcServer) -> None:
    """Let a server say how it is, and which applications there are."""
    import grpc

    async def health(request: bytes, context: CallContext) -> bytes:
        return field(1, b"success")

    async def names(request: bytes, context: CallContext) -> bytes:
        return b"".join(field(1, name.encode()) for name in await calls.applications())

    methods = {
        "Healthz": grpc.unary_unary_rpc_method_handler(health),
        "ListApplications": grpc.unary_unary_rpc_method_handler(names),
    }
    own = grpc.method_handlers_generic_handler(API.strip("/"), methods)
    server.add_generic_rpc_handlers((own,))
