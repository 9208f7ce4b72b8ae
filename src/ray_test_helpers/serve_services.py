"""`ray.serve.generated.serve_pb2_grpc`: the services that tests of gRPC offer and call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from ray_test_helpers import serve_messages

_OF_USER = ("UserDefinedMessage", "UserDefinedResponse")

# The methods of each service: what they take and return, and which of it is a stream.
_SERVICES: dict[str, dict[str, tuple[str, str, str]]] = {
    "RayServeAPIService": {
        "ListApplications": ("ListApplicationsRequest", "ListApplicationsResponse", "unary_unary"),
        "Healthz": ("HealthzRequest", "HealthzResponse", "unary_unary"),
    },
    "UserDefinedService": {
        "__call__": (*_OF_USER, "unary_unary"),
        "Method1": (*_OF_USER, "unary_unary"),
        "Method2": ("UserDefinedMessage2", "UserDefinedResponse2", "unary_unary"),
        "Streaming": (*_OF_USER, "unary_stream"),
        "ClientStreaming": (*_OF_USER, "stream_unary"),
        "BidiStreaming": (*_OF_USER, "stream_stream"),
    },
    "FruitService": {"FruitStand": ("FruitAmounts", "FruitCosts", "unary_unary")},
}


def _stub(service: str) -> type:
    def connect(self: Any, channel: Any) -> None:
        for method, (takes, returns, kind) in _SERVICES[service].items():
            call = getattr(channel, kind)(
                f"/ray.serve.{service}/{method}",
                request_serializer=getattr(serve_messages, takes).SerializeToString,
                response_deserializer=getattr(serve_messages, returns).FromString,
            )
            setattr(self, method, call)

    return type(f"{service}Stub", (), {"__init__": connect, "__module__": __name__})


def _add_function(service: str) -> Callable[[object, Any], None]:
    def add(servicer: object, server: Any) -> None:
        handlers = {
            method: getattr(grpc, f"{kind}_rpc_method_handler")(
                getattr(servicer, method),
                request_deserializer=getattr(serve_messages, takes).FromString,
                response_serializer=getattr(serve_messages, returns).SerializeToString,
            )
            for method, (takes, returns, kind) in _SERVICES[service].items()
        }
        generic = grpc.method_handlers_generic_handler(f"ray.serve.{service}", handlers)
        server.add_generic_rpc_handlers((generic,))

    return add


for _service in _SERVICES:
    globals()[f"{_service}Stub"] = _stub(_service)
    globals()[f"add_{_service}Servicer_to_server"] = _add_function(_service)
