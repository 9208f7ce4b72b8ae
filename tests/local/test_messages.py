"""What the two ends of a connection say to each other, in the same words."""

from __future__ import annotations

import inspect
import marshal
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import pytest

import skate
from skate.engine import current_engine, installed_engine
from skate.engine.local import messages as m
from skate.engine.local.wire import decode_work, encode, encode_result, encode_work
from tests.support import local_only


def test_each_message_has_a_number_of_its_own() -> None:
    declared = [
        kind
        for kind in vars(m).values()
        if isinstance(kind, type) and issubclass(kind, tuple) and kind.__module__ == m.__name__
    ]
    assert sorted(map(repr, m.MESSAGES)) == sorted(map(repr, declared))
    assert m.MESSAGES[m.WORK] is m.Work
    assert m.MESSAGES[m.RESULT] is m.WorkResult
    assert m.MESSAGES[m.RESULTS] is m.WorkResults
    assert m.MESSAGES[m.HELLO] is m.Hello


@pytest.mark.parametrize("kind", m.MESSAGES)
def test_a_message_is_the_same_on_the_wire(kind: Any) -> None:
    message = kind(*range(len(kind._fields)))
    number, fields = marshal.loads(marshal.dumps(encode(message)))
    assert m.MESSAGES[number](*fields) == message


def test_the_fast_ways_write_the_same() -> None:
    work = m.Work(m.CALL, 1, "method", 0, b"", None, 1, {"name": "x"})
    assert encode_work(*work) == encode(work)
    assert decode_work(encode(work)[1]) == work
    result = m.WorkResult(1, 0, b"", (), 5)
    assert encode_result(*result) == encode(result)


def test_settings_have_known_names() -> None:
    assert {"name", "resources", "is_async"} <= set(get_type_hints(m.WorkSettings))


def wrong_parameters(handlers: dict[int, Callable[..., None]], skipped: int) -> Iterator[str]:
    for number, handler in handlers.items():
        named = list(inspect.signature(handler).parameters)[skipped:]
        fields = list(m.MESSAGES[number]._fields)
        if named not in (fields, ["fields"]):  # or it makes the named tuple itself
            yield f"{handler.__qualname__} has {named}, its message {fields}"


def wrong_in_worker() -> tuple[list[str], set[int]]:
    engine: Any = installed_engine()
    return list(wrong_parameters(engine._handlers, skipped=0)), set(engine._handlers)


@local_only
@pytest.mark.usefixtures("engine")
def test_handlers_take_the_fields_of_their_messages() -> None:
    engine: Any = current_engine()
    assert list(wrong_parameters(engine.hub.handlers, skipped=1)) == []  # after the worker
    wrong, in_worker = skate.get(skate.remote(wrong_in_worker).remote())
    assert wrong == []
    handled = {*engine.hub.handlers, *in_worker, m.WORK, m.HELLO}
    assert handled == set(range(len(m.MESSAGES)))
