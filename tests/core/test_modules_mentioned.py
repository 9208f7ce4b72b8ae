"""What a function will import, seen from outside."""

from __future__ import annotations

import json as notation
from functools import partial
from typing import Any

from skate._core.modules_mentioned import modules_mentioned


def directly() -> object:
    return notation.dumps(1)


def by_a_call() -> object:
    return directly()


def in_the_call() -> object:
    import decimal

    return decimal.Decimal(1)


class InAMethod:
    def __call__(self) -> object:
        return [in_the_call() for _ in range(1)]


def test_what_is_called_counts() -> None:
    import decimal  # noqa: F401  # only what is loaded can be inherited

    for function in (directly, by_a_call, InAMethod, InAMethod()):
        assert "json" in modules_mentioned(function)
    for mentioned in (in_the_call, InAMethod, InAMethod().__call__):
        assert "decimal" in modules_mentioned(mentioned)


def test_what_is_around_it_counts() -> None:
    import decimal

    def outside() -> object:
        return decimal

    def inside() -> object:
        return outside()

    assert "decimal" in modules_mentioned(inside)


def test_of_the_program_itself_only_what_is_used() -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    text = "import json, decimal\ndef f(): return json\ndef g(): return g() or f()\ndef h(): pass"
    exec(text, scope)
    assert modules_mentioned(scope["g"]) == ["json"]
    assert modules_mentioned(scope["h"]) == []


def test_what_has_no_code() -> None:
    for value in (len, partial(directly), int):
        assert isinstance(modules_mentioned(value), list)


def test_a_name_that_has_no_value_yet_is_no_error() -> None:
    def function() -> object:
        return notation.dumps(later)

    assert "json" in modules_mentioned(function)
    later = 1
    assert function() == "1"


def test_parts_of_modules_that_are_named_count() -> None:
    def of_a_global() -> object:
        return notation.decoder.JSONDecoder()

    def imported_by_the_call() -> object:
        import json

        return json.decoder.JSONDecoder()

    for function in (of_a_global, imported_by_the_call, partial(of_a_global)):
        assert "json.decoder" in modules_mentioned(function)
        assert "json.encoder" not in modules_mentioned(function)
