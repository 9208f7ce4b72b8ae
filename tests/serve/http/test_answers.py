"""Values as bodies of responses."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from typing import Any

import numpy as np
import pydantic
import pytest
from starlette.datastructures import QueryParams

from skate.serve._http.answers import chunk, encode, retry_after


@dataclasses.dataclass
class Point:
    x: int
    y: Any


class Plain:
    def __init__(self) -> None:
        self.a = 1


_ONE = "00000000-0000-0000-0000-000000000001"


class Color(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    name: str
    when: datetime.date


@pytest.mark.parametrize(
    ("value", "body", "kind"),
    [
        (None, b"", b"text/plain"),
        ("grüß", "grüß".encode(), b"text/plain; charset=utf-8"),
        (b"\x00\xff", b"\x00\xff", b"text/plain"),
        ({"a": [1, 2.5, None]}, b'{"a":[1,2.5,null]}', b"application/json"),
        (True, b"true", b"application/json"),
    ],
)
def test_text_and_json(value: Any, body: bytes, kind: bytes) -> None:
    assert encode(value) == (body, kind)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.arange(3), [0, 1, 2]),
        (np.float32(1.5), 1.5),
        ({"a": np.int64(3)}, {"a": 3}),
        (Point(1, Point(2, Color.RED)), {"x": 1, "y": {"x": 2, "y": "red"}}),
        (Model(name="a", when=datetime.date(2024, 5, 1)), {"name": "a", "when": "2024-05-01"}),
        ({"at": datetime.datetime(2024, 5, 1, 12)}, {"at": "2024-05-01T12:00:00"}),
        ([{1}, ValueError("no"), b"bytes"], [[1], "no", "bytes"]),
        ([decimal.Decimal("1.5"), pathlib.Path("a"), uuid.UUID(int=1)], [1.5, "a", _ONE]),
        (Plain(), {"a": 1}),
        (QueryParams("a=b&c=d"), {"a": "b", "c": "d"}),
    ],
)
def test_what_json_does_not_know(value: Any, expected: Any) -> None:
    assert json.loads(encode(value)[0]) == expected


@pytest.mark.parametrize("value", [object(), len, Plain, [object()]])
def test_what_is_no_json_is_a_mistake(value: Any) -> None:
    with pytest.raises(TypeError, match="is no JSON: return"):
        encode(value)


def test_items_of_a_stream() -> None:
    assert [chunk("a"), chunk(b"b"), chunk({"c": 1})] == [b"a", b"b", b'{"c":1}\n']


def test_retry_after_is_whole_seconds() -> None:
    assert retry_after(None) == []
    assert retry_after(1.2) == [(b"retry-after", b"2")]
