"""Values and errors as HTTP responses."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import ipaddress
import json
import math
import pathlib
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Scope = MutableMapping[str, Any]
Headers = list[tuple[bytes, bytes]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

TASK = "skate.task"  # in a scope: the task to cancel when the client is gone

_TEXT = b"text/plain; charset=utf-8"
_PLAIN = b"text/plain"
_JSON = b"application/json"
_AS_TEXT = (
    Exception,
    pathlib.PurePath,
    uuid.UUID,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)


def encode(value: object) -> tuple[bytes, bytes]:
    """Return a body and its content type: text for None, bytes and str, JSON for all else."""
    if isinstance(value, str):
        return value.encode(), _TEXT
    if value is None:
        return b"", _PLAIN
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), _PLAIN
    return json.dumps(value, separators=(",", ":"), default=_plain).encode(), _JSON


def _plain(value: object) -> Any:
    """Return what JSON has for a value that it does not know."""
    if hasattr(value, "model_dump"):  # pydantic
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "isoformat"):  # dates and times
        return value.isoformat()
    for method in ("tolist", "to_dict", "total_seconds"):  # arrays, frames, durations
        if hasattr(value, method):
            return getattr(value, method)()
    if isinstance(value, (bytes, bytearray)):
        return value.decode()
    if isinstance(value, decimal.Decimal):
        is_whole = value.is_finite() and value == value.to_integral_value()
        return int(value) if is_whole else float(value)
    if isinstance(value, _AS_TEXT) or type(value).__module__.startswith("pydantic"):
        return str(value)
    if isinstance(value, Mapping):  # such as the parameters of a request
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    if getattr(value, "__dict__", None) and not isinstance(value, type):
        return vars(value)
    raise TypeError(
        f"a response of type {type(value).__name__} is no JSON: return str, bytes, numbers, "
        f"lists, dictionaries, or a Starlette response; got {value!r}"
    )


async def send_value(
    send: Send, value: object, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send the whole response that a value stands for."""
    body, kind = encode(value)
    length = str(len(body)).encode()
    start: Headers = [(b"content-type", kind), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def chunk(item: object) -> bytes:
    """Return an item of a stream: bytes and text as they are, all else as a line of JSON."""
    if isinstance(item, (str, bytes, bytearray, memoryview)):
        return encode(item)[0]
    return encode(item)[0] + b"\n"


def retry_after(seconds: float | None) -> Headers:
    """Return when to come back, as a header; seconds are whole there."""
    return [] if seconds is None else [(b"retry-after", b"%d" % max(0, math.ceil(seconds)))]
