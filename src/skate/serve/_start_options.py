"""What `serve.start` is given: what it means, and how it differs from what already runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from skate._core.argument_checks import unknown_names, wrong_value
from skate.serve.config import ControllerOptions, HTTPOptions

_FORMER_HTTP = ("http_host", "http_port", "http_middlewares")
_FORMER = ("detached", "dedicated_cpu")  # an instance ends with its session, and reserves nothing


def http_options(
    location: Any, given: Any, former: Mapping[str, Any]
) -> tuple[HTTPOptions | None, list[str]]:
    """The options as they are meant, None for no HTTP; and which of them were asked for."""
    wrong = [name for name in former if name not in (*_FORMER_HTTP, *_FORMER)]
    if wrong:
        raise unknown_names("serve.start", wrong, ["proxy_location", "http_options"])
    fields = {
        name.removeprefix("http_"): value for name, value in former.items() if name not in _FORMER
    }
    options = HTTPOptions.of("http_options", {} if given is None else given)
    options = options.copy(update=fields) if fields else options
    where = options.location if location is None else location
    disabled = where is None or getattr(where, "value", where) in ("Disabled", "NoServer")
    asked = [*_names(given), *fields, *([] if location is None else ["location"])]
    return None if disabled or options.host is None else options, asked


def _names(given: Any) -> Iterable[str]:
    if given is None:
        return []
    return given if isinstance(given, Mapping) else HTTPOptions.names()


def warn_of_others(
    running: HTTPOptions | None, wanted: HTTPOptions | None, asked: Iterable[str]
) -> None:
    """An instance keeps what it was started with: say so to who asks for something else."""
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
    """On one machine all locations are the same, and port 0 is whichever there is."""
    if name == "location" or (name == "port" and wanted.port == 0):
        return False
    return bool(getattr(running, name) != getattr(wanted, name))


def _shown(options: HTTPOptions, names: Iterable[str]) -> str:
    hidden = ("ssl_keyfile_password", "auth_token")
    return ", ".join(f"{n}={'...' if n in hidden else repr(getattr(options, n))}" for n in names)


def warn_of_options(given: ControllerOptions) -> None:
    """The controller that runs has the environment that it was started with."""
    if given.runtime_env:
        _warn("the controller that there is", f"one with {given}")


def _warn(running: str, wanted: str) -> None:
    warnings.warn(
        f"serve runs with {running}, and goes on with that; asked for was {wanted}: call "
        "serve.shutdown() first to start it anew",
        stacklevel=4,
    )


def refuse_tracing(given: Any) -> None:
    if given is not None:
        raise wrong_value(
            "tracing_config",
            given,
            "None: skate.serve exports no traces; instrument your classes, as by OpenTelemetry",
        )


def refuse_external_scaler(given: Any) -> None:
    if given:
        raise wrong_value(
            "external_scaler_enabled",
            given,
            "False: nothing outside of the program scales deployments; run the application again "
            "with another num_replicas, or give autoscaling_config a policy of your own",
        )
