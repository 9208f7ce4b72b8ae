"""Of `ray.serve._private.test_utils`: calls by gRPC, and what they should be answered with."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def ping_grpc_list_applications(
    channel: Any, app_names: list[str], test_draining: bool = False
) -> bool:
    api = _stub("RayServeAPIService", channel)
    answer = api.ListApplications(_message("ListApplicationsRequest"))
    assert list(answer.application_names) == list(app_names), answer
    return True


def ping_grpc_healthz(channel: Any, test_draining: bool = False) -> bool:
    answer = _stub("RayServeAPIService", channel).Healthz(_message("HealthzRequest"))
    assert answer.message == "success", answer
    return True


def ping_grpc_call_method(channel: Any, app_name: str, test_not_found: bool = False) -> None:
    call = _stub("UserDefinedService", channel).__call__
    if not test_not_found:
        assert call(_foo(), metadata=_to(app_name)).greeting == "Hello foo from bar"
        return
    try:
        call(_foo(), metadata=_to(app_name))
    except Exception as caught:
        error: Any = caught
        assert error.code().name == "NOT_FOUND", error
        assert f"Application '{app_name}' not found." in error.details(), error
        return
    raise AssertionError(f"an application {app_name} answers")


def ping_grpc_another_method(channel: Any, app_name: str) -> None:
    answer = _stub("UserDefinedService", channel).Method1(_foo(), metadata=_to(app_name))
    assert answer.greeting == "Hello foo from method1", answer


def ping_grpc_model_multiplexing(channel: Any, app_name: str) -> None:
    metadata = (*_to(app_name), ("multiplexed_model_id", "999"))
    answer = _stub("UserDefinedService", channel).Method2(_foo(), metadata=metadata)
    assert answer.greeting == "Method2 called model, loading model: 999", answer


def ping_grpc_streaming(channel: Any, app_name: str) -> None:
    stub = _stub("UserDefinedService", channel)
    for number, answer in enumerate(stub.Streaming(_foo(), metadata=_to(app_name))):
        assert answer.greeting == f"{number}: Hello foo from bar", answer


def ping_fruit_stand(channel: Any, app_name: str) -> None:
    stub = _stub("FruitService", channel)
    answer = stub.FruitStand(_message("FruitAmounts", orange=4, apple=8), metadata=_to(app_name))
    assert answer.costs == 32, answer


def _message(name: str, /, **fields: object) -> Any:
    return getattr(import_module("ray_test_helpers.serve_messages"), name)(**fields)


def _stub(service: str, channel: Any) -> Any:
    return getattr(import_module("ray_test_helpers.serve_services"), f"{service}Stub")(channel)


def _foo() -> Any:
    return _message("UserDefinedMessage", name="foo", num=30, foo="bar")


def _to(app_name: str) -> tuple[tuple[str, str], ...]:
    return (("application", app_name),)


class FakeGrpcContext:
    """A context as gRPC makes it, for the parts that keep one."""

    def __init__(self) -> None:
        self._auth_context = {"key": "value"}
        self._invocation_metadata: list[tuple[str, str]] = []
        self._peer = "peer"
        self._peer_identities = b"peer_identities"
        self._peer_identity_key = "peer_identity_key"
        self._code: Any = None
        self._details: Any = None
        self._trailing_metadata: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        """Return a method that returns what is kept by its name, or keeps it."""
        if name.startswith("set_"):
            return lambda value: setattr(self, name.removeprefix("set"), value)
        if f"_{name}" not in vars(self):
            raise AttributeError(name)
        return lambda: vars(self)[f"_{name}"]
