"""Checks that tables of parameters are made of: the value in its final form, or why not."""

from __future__ import annotations

from typing import Any

import pytest

from skate._core import argument_checks as checks


@pytest.mark.parametrize(
    ("check", "value", "result"),
    [
        (checks.whole_numbers(1), 3, 3),
        (checks.whole_numbers(1, whole_floats=True), 3.0, 3),
        (checks.numbers(0, "a number"), 2, 2.0),
        (checks.numbers(0, "a number", finite=False), float("inf"), float("inf")),
        (checks.optional(checks.whole_numbers(1)), None, None),
        (checks.instances(str, "a string"), "", ""),
        (checks.one_of("a", None), None, None),
    ],
)
def test_values_that_are_taken(check: checks.Check, value: Any, result: Any) -> None:
    found = check("limit", value)
    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (checks.whole_numbers(1), 3.0),
        (checks.whole_numbers(1, whole_floats=True), 3.5),
        (checks.whole_numbers(0), True),
        (checks.whole_numbers(0), None),
        (checks.numbers(0, "a number"), "1"),
        (checks.numbers(0, "a number"), False),
        (checks.instances(str, "a string"), None),
    ],
)
def test_a_wrong_type_is_a_type_error(check: checks.Check, value: Any) -> None:
    with pytest.raises(TypeError, match=r"^limit takes .*; got .* of type"):
        check("limit", value)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (checks.whole_numbers(1), 0),
        (checks.numbers(0, "a number"), -1),
        (checks.numbers(0, "a number", above=True), 0),
        (checks.numbers(0, "a number", highest=1), 1.5),
        (checks.numbers(0, "a number"), float("inf")),
        (checks.numbers(0, "a number", finite=False), float("nan")),
        (checks.one_of("a", "b"), "c"),
    ],
)
def test_a_wrong_value_is_a_value_error(check: checks.Check, value: Any) -> None:
    with pytest.raises(ValueError, match=r"^limit takes .*; got"):
        check("limit", value)


def test_names_that_do_not_exist_have_near_misses() -> None:
    error = checks.unknown_names("a deployment", ["num_replica", "x"], ["num_replicas", "name"])
    assert isinstance(error, TypeError)
    assert str(error) == (
        "a deployment has no parameter 'num_replica' (did you mean 'num_replicas'?), 'x'; "
        "it takes num_replicas, name"
    )
