"""Settings of deployments and of the server, as users write them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable as Callable  # annotations of what is named here are read here
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from skate._core.argument_checks import Check, instances, optional, whole_numbers, wrong_value
from skate._core.public_names import name_publicly
from skate.serve._actor_config import DeploymentActorConfig
from skate.serve._autoscaling_config import (
    AggregationFunction,
    AutoscalingConfig,
    AutoscalingContext,
    AutoscalingPolicy,
    TimeStampedValue,
)
from skate.serve._gang_scheduling import (
    GangPlacementStrategy,
    GangRuntimeFailurePolicy,
    GangSchedulingConfig,
)
from skate.serve._identity import DeploymentID as DeploymentID  # as is the case with these
from skate.serve._identity import ReplicaID as ReplicaID
from skate.serve._settings import CheckedSettings, check_setting, non_negative, positive

__all__ = [
    "AggregationFunction",
    "AutoscalingConfig",
    "AutoscalingContext",
    "AutoscalingPolicy",
    "BackpressureConfig",
    "ControllerOptions",
    "DeploymentActorConfig",
    "DeploymentMode",
    "GangPlacementStrategy",
    "GangRuntimeFailurePolicy",
    "GangSchedulingConfig",
    "HTTPOptions",
    "ProxyLocation",
    "RequestRouterConfig",
    "gRPCOptions",
]


def _busy_status(name: str, value: object) -> object:
    if value not in (429, 503):
        raise wrong_value(name, value, "429 or 503")
    return value


@dataclass
class BackpressureConfig(CheckedSettings):
    """What a caller over HTTP is told when too many requests wait.

    Args:
        status_code: 503, the default, or 429.
        retry_after_s: After how many seconds to come back, as the header `Retry-After`; None for
            no header.
    """

    status_code: int = 503
    retry_after_s: float | None = None

    _checks: ClassVar[dict[str, Check]] = {
        "status_code": _busy_status,
        "retry_after_s": optional(non_negative),
    }
    _is_closed: ClassVar[bool] = True


@dataclass
class RequestRouterConfig(CheckedSettings):
    """How handles choose among replicas: the less busy of two, or as a router of yours says.

    Args:
        request_router_class: A class derived from `serve.request_router.RequestRouter`, or the
            path to one; left out, the less busy of two replicas is taken.
        request_router_kwargs: What the router's `initialize_state` is given.
        request_routing_stats_period_s: How often `record_routing_stats` of the deployment's
            class is called, if it has this method; routers see what it returns.
        request_routing_stats_timeout_s: How long that may take.
        initial_backoff_s: How long to wait before a router of yours is asked again, at most.
        backoff_multiplier: By how much longer, each time.
        max_backoff_s: The longest of these times.
    """

    request_router_class: Any = None
    request_router_kwargs: dict[str, Any] = field(default_factory=dict)
    request_routing_stats_period_s: float = 10.0
    request_routing_stats_timeout_s: float = 30.0
    initial_backoff_s: float = 0.025
    backoff_multiplier: float = 2.0
    max_backoff_s: float = 0.5

    _checks: ClassVar[dict[str, Check]] = {
        "request_router_kwargs": instances(Mapping, "a dictionary"),
        "request_routing_stats_period_s": positive,
        "request_routing_stats_timeout_s": positive,
        "initial_backoff_s": positive,
        "backoff_multiplier": positive,
        "max_backoff_s": positive,
    }

    def get_request_router_class(self) -> Any:
        """Return the class that was given, by itself or by its path; else the usual one."""
        given = self.request_router_class
        if isinstance(given, str):
            from skate.serve._application.import_paths import import_attribute

            return import_attribute(given)
        if given is None:
            from skate.serve.request_router import PowerOfTwoChoicesRequestRouter

            return PowerOfTwoChoicesRequestRouter
        return given


class ProxyLocation(str, Enum):
    """Where HTTP is answered. On one machine all but `Disabled` mean the same."""

    Disabled = "Disabled"
    HeadOnly = "HeadOnly"
    EveryNode = "EveryNode"


class DeploymentMode(str, Enum):
    """The name of ProxyLocation's choices until Ray 2.10."""

    NoServer = "NoServer"
    HeadOnly = "HeadOnly"
    EveryNode = "EveryNode"
    FixedNumber = "FixedNumber"


def _location(name: str, value: object) -> object:
    """Return where HTTP is answered, by either name."""
    for kind in (ProxyLocation, DeploymentMode):
        with suppress(ValueError):
            return kind(value)
    raise wrong_value(name, value, f"one of {', '.join(each.value for each in ProxyLocation)}")


def check_certificate(keyfile: str | None, certfile: str | None) -> None:
    """Raise unless https has what it needs, or is not wanted.

    Args:
        keyfile: The private key, if one was given.
        certfile: The certificate, if one was given.

    Raises:
        ValueError: If only one of them was given.
    """
    check_setting(_both_or_neither, "ssl_keyfile and ssl_certfile", (keyfile, certfile))


def _both_or_neither(name: str, value: tuple[object, object]) -> object:
    if bool(value[0]) != bool(value[1]):
        raise ValueError(f"Both {name} must be provided together, or neither; got {value}")
    return value


def _request_timeout() -> float | None:
    """Return what Ray's setting of the environment says; zero means no limit."""
    return float(os.environ.get("RAY_SERVE_REQUEST_PROCESSING_TIMEOUT_S") or 0) or None


def _keep_alive_timeout() -> float:
    """Return what Ray's setting of the environment says."""
    return float(os.environ.get("RAY_SERVE_HTTP_KEEP_ALIVE_TIMEOUT_S") or 90)


def _token_of_environment() -> str | None:
    return os.environ.get("SKATE_SERVE_AUTH_TOKEN") or None


_HIGHEST_PORT = 65535


def _port(name: str, value: object) -> int:
    allowed = f"a port number up to {_HIGHEST_PORT}, or 0 for any that is free"
    number: int = whole_numbers(0, allowed, whole_floats=True)(name, value)
    if number > _HIGHEST_PORT:
        raise wrong_value(name, value, allowed)
    return number


@dataclass
class HTTPOptions(CheckedSettings):
    """The address, and what applies to all requests over HTTP.

    Args:
        host: The address to listen on; "127.0.0.1", the default, is for this machine only. None
            for no HTTP.
        port: The port; 0 for any that is free.
        middlewares: Starlette's middlewares, around all applications.
        location: "Disabled" for no HTTP; all else is this machine.
        num_cpus: No effect: no process is there for HTTP alone.
        root_url: No effect: `serve.http_address()` says the URL.
        root_path: The path that a proxy in front has taken away.
        request_timeout_s: Seconds for an answer; None for no limit, or what the environment
            variable RAY_SERVE_REQUEST_PROCESSING_TIMEOUT_S says.
        keep_alive_timeout_s: Seconds that a connection without a request stays open.
        receive_timeout_s: Seconds for the head of a request, between parts of its body, and for
            the client to read the answer.
        show_errors: Whether answers to failed requests carry the traceback.
        ssl_keyfile: The private key of the certificate, for https.
        ssl_certfile: The certificate, for https.
        ssl_keyfile_password: The password of the key.
        ssl_ca_certs: Authorities of whose certificates clients must have one.
        auth_token: Requests need the header `Authorization: Bearer <token>`, except for
            `/-/healthz`; by default the environment variable SKATE_SERVE_AUTH_TOKEN.
        auth_token_file: A file that has the token.

    Raises:
        TypeError: If a value has the wrong type.
        ValueError: If a value is not allowed, or does not go with another.
    """

    host: str | None = "127.0.0.1"
    port: int = 8000
    middlewares: list[Any] = field(default_factory=list)
    location: Any = ProxyLocation.HeadOnly
    num_cpus: float = 0
    root_url: str = ""
    root_path: str = ""
    request_timeout_s: float | None = field(default_factory=_request_timeout)
    keep_alive_timeout_s: float = field(default_factory=_keep_alive_timeout)
    receive_timeout_s: float = 60  # for the head of a request, between parts, to read an answer
    show_errors: bool = False  # whether answers to failed requests carry the traceback
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None
    auth_token: str | None = field(default_factory=_token_of_environment, repr=False)
    auth_token_file: str | None = None

    _checks: ClassVar[dict[str, Check]] = {
        "port": _port,
        "request_timeout_s": optional(non_negative),
        "keep_alive_timeout_s": non_negative,
        "receive_timeout_s": positive,
        "location": optional(_location),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.host is None or self.location is None:
            self.location = DeploymentMode.NoServer
        check_certificate(self.ssl_keyfile, self.ssl_certfile)
        if self.ssl_ca_certs and not self.ssl_certfile:
            raise wrong_value("ssl_ca_certs", self.ssl_ca_certs, "a file beside ssl_certfile")
        self._check_token()

    def _check_token(self) -> None:
        where = "auth_token"
        if self.auth_token_file is not None:
            where = f"auth_token_file ({self.auth_token_file})"
            self.auth_token = Path(self.auth_token_file).read_text().strip()
        token: Any = self.auth_token
        if token is not None and not (isinstance(token, str) and re.fullmatch(r"[!-~]+", token)):
            # Without the token: messages are logged and sent around.
            raise ValueError(
                f"{where} takes a token of ASCII letters, digits and signs, without spaces; got "
                f"something else, of type {type(token).__name__}"
            )


@dataclass
class gRPCOptions(CheckedSettings):  # noqa: N801 - the name is Ray's
    """Where gRPC is answered, and which methods: on the host of HTTP, with its certificate.

    Args:
        port: The port; 0 takes one that is free, and another if the process that answers dies.
        grpc_servicer_functions: Import paths of the generated functions that add a service to a
            server, such as "shop_pb2_grpc.add_ShopServicer_to_server". Without any, gRPC is not
            answered.
        request_timeout_s: Seconds that a call may take; None is no limit.
        enable_reflection: Whether clients can ask which methods there are.
    """

    port: int = 9000
    grpc_servicer_functions: list[Any] = field(default_factory=list)
    request_timeout_s: float | None = None
    enable_reflection: bool = False

    _checks: ClassVar[dict[str, Check]] = {
        "port": _port,
        "grpc_servicer_functions": instances((list, tuple), "a list of import paths"),
        "request_timeout_s": optional(non_negative),
    }

    @property
    def grpc_servicer_func_callable(self) -> list[Any]:
        """The generated functions themselves.

        Raises:
            ModuleNotFoundError: If one cannot be imported.
            ValueError: If one is no function.
        """
        from skate.serve._grpc.methods import servicer_function

        return [servicer_function(path) for path in self.grpc_servicer_functions]


@dataclass
class ControllerOptions(CheckedSettings):
    """The environment of the controller.

    Args:
        runtime_env: That of its process, as for actors.
    """

    runtime_env: dict[str, Any] = field(default_factory=dict)

    _is_closed: ClassVar[bool] = True


name_publicly(
    __name__,
    AggregationFunction,
    AutoscalingConfig,
    AutoscalingContext,
    AutoscalingPolicy,
    TimeStampedValue,
    GangPlacementStrategy,
    GangRuntimeFailurePolicy,
    GangSchedulingConfig,
    DeploymentActorConfig,
)
