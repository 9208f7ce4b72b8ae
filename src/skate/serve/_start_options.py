"""What `serve.start` is given: what it means, and how it differs from what already runs."""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

from skate._core.argument_checks import unknown_names, wrong_value
from skate.serve._application.import_paths import call_by_path
from skate.serve.config import ControllerOptions, HTTPOptions, ProxyLocation, gRPCOptions

GivenHttpOptions = HTTPOptions | Mapping[str, Any] | None

P = ParamSpec("P")
R = TypeVar("R")

_OLDER_HTTP_OPTIONS = {"http_host": "host", "http_port": "port", "http_middlewares": "middlewares"}
_MIDDLEWARES = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"  # for all applications
_WITHOUT_EFFECT = ("detached", "dedicated_cpu")  # an instance ends with its session


def takes_older_start_options(start: Callable[P, R]) -> Callable[P, R]:
    """Let `serve.start` take the keywords of earlier versions of Ray.

    Those of HTTP become fields of `http_options`; `detached` and `dedicated_cpu` have no effect:
    an instance ends with its session, and reserves nothing.
    """
    signature = inspect.signature(start)

    @functools.wraps(start)
    def _with_older_options(*args: P.args, **kwargs: P.kwargs) -> R:
        known = {name: value for name, value in kwargs.items() if name in signature.parameters}
        older = {name: value for name, value in kwargs.items() if name not in known}
        bound = signature.bind(*args, **known)
        if older:
            bound.arguments["http_options"] = with_older_http_options(
                bound.arguments.get("http_options"), older
            )
        return start(*bound.args, **bound.kwargs)

    return _with_older_options


def takes_older_address(
    start: Callable[..., object],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that lets `serve.run` take `host` and `port`, as earlier versions of Ray.

    They are those of the instance, which `start` begins first.
    """

    def _decorate(run: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(run)

        @functools.wraps(run)
        def _at_older_address(*args: P.args, **kwargs: P.kwargs) -> R:
            address = {name: kwargs.pop(name) for name in ("host", "port") if name in kwargs}
            if address:
                signature.bind(*args, **kwargs)  # a wrong keyword starts nothing
                start(http_options=address)
            return run(*args, **kwargs)

        return _at_older_address

    return _decorate


def with_older_http_options(
    given: GivenHttpOptions, older: Mapping[str, object]
) -> GivenHttpOptions:
    """Return the options of HTTP with those that older keywords stand for.

    Raises:
        TypeError: If there never was such a keyword.
    """
    wrong = [name for name in older if name not in (*_OLDER_HTTP_OPTIONS, *_WITHOUT_EFFECT)]
    if wrong:
        raise unknown_names("serve.start", wrong, ["proxy_location", "http_options"])
    fields = {new: older[old] for old, new in _OLDER_HTTP_OPTIONS.items() if old in older}
    if isinstance(given, HTTPOptions):
        return given.copy(update=fields)
    return {**given, **fields} if isinstance(given, Mapping) else (fields or given)


def read_http_options(
    location: ProxyLocation | str | None, given: GivenHttpOptions
) -> tuple[HTTPOptions | None, list[str]]:
    """Return the options as they are meant, None for no HTTP; and which were asked for."""
    options = HTTPOptions.of("http_options", {} if given is None else given)
    where = options.location if location is None else location
    disabled = where is None or getattr(where, "value", where) in ("Disabled", "NoServer")
    asked = [*_names(given), *([] if location is None else ["location"])]
    return None if disabled or options.host is None else options, asked


def with_middlewares_of_environment(options: HTTPOptions | None) -> HTTPOptions | None:
    """Return the options with the middlewares of the function that Ray's setting of the
    environment names, if it names one.

    Raises:
        ValueError: If it cannot be imported.
        TypeError: If it is no function, or returns something else.
    """
    path = os.environ.get(_MIDDLEWARES)
    if not path or options is None:
        return options
    made = call_by_path(path)
    if not isinstance(made, list) or not all(hasattr(each, "cls") for each in made):
        raise TypeError(
            f"{path}, which {_MIDDLEWARES} names, must return a list of Starlette middlewares; "
            f"got {made!r}"
        )
    return options.copy(update={"middlewares": [*options.middlewares, *made]})


def _names(given: GivenHttpOptions) -> Iterable[str]:
    if given is None:
        return []
    return list(given) if isinstance(given, Mapping) else HTTPOptions.names()


def warn_of_others(
    running: HTTPOptions | None, wanted: HTTPOptions | None, asked: Iterable[str]
) -> None:
    """Warn who asks for something else that an instance keeps what it was started with."""
    asked = list(asked)
    if not asked or (running is None and wanted is None):
        return
    if running is None or wanted is None:
        has, wants = ("without" if each is None else "with" for each in (running, wanted))
        _warn(f"{has} HTTP", f"one {wants} it")
        return
    others = [name for name in asked if _differs(name, running, wanted)]
    if others:
        _warn(_shown(running, others), _shown(wanted, others))


def _differs(name: str, running: HTTPOptions, wanted: HTTPOptions) -> bool:
    """Compare an option; all locations are the same here, and port 0 is whichever there is."""
    if name == "location" or (name == "port" and wanted.port == 0):
        return False
    return bool(getattr(running, name) != getattr(wanted, name))


def _shown(options: HTTPOptions, names: Iterable[str]) -> str:
    hidden = ("ssl_keyfile_password", "auth_token")
    return ", ".join(f"{n}={'...' if n in hidden else repr(getattr(options, n))}" for n in names)


def is_same_grpc(running: gRPCOptions, wanted: gRPCOptions) -> bool:
    """Return whether gRPC runs as it is asked for."""
    port = wanted.port or running.port  # 0 is whichever there is
    return wanted.copy(update={"port": port}) == running


def warn_of_other_grpc(running: gRPCOptions, wanted: gRPCOptions) -> None:
    """Warn who asks for gRPC with other options that it keeps those that it was started with."""
    if not is_same_grpc(running, wanted):
        _warn(repr(running), repr(wanted))


def warn_of_options(given: ControllerOptions) -> None:
    """Warn that the controller that runs has the environment that it was started with."""
    if given.runtime_env:
        _warn("the controller that there is", f"one with {given}")


def _warn(running: str, wanted: str) -> None:
    warnings.warn(
        f"serve runs with {running}, and goes on with that; asked for was {wanted}: call "
        "serve.shutdown() first to start it anew",
        stacklevel=4,
    )


def refuse_tracing(given: object) -> None:
    """Raise a ValueError if traces are asked for."""
    if given is not None:
        raise wrong_value(
            "tracing_config",
            given,
            "None: give skate.init(_tracing_startup_hook=...) a function that sets OpenTelemetry "
            "up, and traces go on through handles",
        )


def refuse_external_scaler(given: object) -> None:
    """Raise a ValueError if something outside of the program is to scale."""
    if given:
        raise wrong_value(
            "external_scaler_enabled",
            given,
            "False: nothing outside of the program scales deployments; run the application again "
            "with another num_replicas, or give autoscaling_config a policy of your own",
        )
