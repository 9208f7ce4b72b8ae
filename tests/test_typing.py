"""What type checkers are told. `scripts/check` looks at what they say to it: `tests/typing` holds
what they know of programs, and what they refuse."""

from __future__ import annotations

import inspect
import re
from typing import Any

import cloudpickle
import pytest

import skate
from skate._core import options as option_table
from skate._facade import option_keywords as keywords
from tests import type_checks


def test_what_a_checker_reports_is_compared_with_the_lines_that_it_has_to_refuse() -> None:
    marked = type_checks.marked()
    assert len(marked) >= 30
    errors = [f"/some/where/{name}:{line}:5 - error: no" for name, line in sorted(marked)]
    assert type_checks.differences("\n".join(errors)) == []
    others = [*errors[1:], "right.py:3: error: no"]
    missed, wrong = type_checks.differences("\n".join(others))
    assert missed.endswith("was not refused")
    assert wrong == "right.py:3 was refused"


@pytest.mark.parametrize(
    ("kind", "typed"),
    [
        (option_table.TASK, keywords.FunctionKeywords),
        (option_table.ACTOR, keywords.ActorKeywords),
        (option_table.CALL, keywords.CallKeywords),
    ],
)
def test_the_typed_options_are_those_of_the_table(kind: str, typed: Any) -> None:
    named = {name for name, option in option_table.OPTIONS.items() if kind in option.kinds}
    assert named - {"num_returns"} == set(typed.__annotations__)


def test_the_words_of_remote_name_the_options_that_do_something() -> None:
    told = set(re.findall(r"\w+", skate.remote.__doc__ or ""))
    rows = option_table.OPTIONS.items()
    made = [name for name, row in rows if row.field and row.kinds != (option_table.CALL,)]
    assert not [name for name in made if name[0] != "_" and name not in told]


def test_what_is_remote_shows_the_signature_and_the_words_of_the_user() -> None:
    def mix(a: int, b: str = "") -> float:
        """Mix them."""
        return a + len(b)

    class Counter:
        """Counts."""

        def __init__(self, start: int) -> None: ...

        def add(self, n: int, *, times: int = 1) -> int:
            """Add it."""
            return n * times

        @staticmethod
        def zero(digits: int = 1) -> str:
            return "0" * digits

    function: Any = skate.remote(mix)
    cls: Any = skate.remote(Counter)
    for shown in (function, function.remote, function.options(num_cpus=2).remote):
        assert inspect.signature(shown) == inspect.signature(mix)
        assert shown.__doc__ == "Mix them."
    assert [*inspect.signature(cls.remote).parameters] == ["start"]
    assert cls.remote.__doc__ == "Counts."
    skate.init(engine="inline")
    try:
        counter = cls.remote(1)
        method = counter.add
        for shown in (method, method.remote, method.options(name="one").remote):
            assert str(inspect.signature(shown)) == "(n: 'int', *, times: 'int' = 1) -> 'int'"
        assert method.remote.__doc__ == "Add it."
        assert inspect.signature(counter.zero.remote) == inspect.signature(Counter.zero)
        travelled = cloudpickle.loads(cloudpickle.dumps(counter))
        assert [*inspect.signature(travelled.add.remote).parameters] == ["n", "times"]
    finally:
        skate.shutdown()


def test_types_take_their_arguments() -> None:
    from skate._facade.remote import RemoteFunction
    from skate.actor import ActorMethod

    assert RemoteFunction[[int, str], float].__origin__ is RemoteFunction
    assert ActorMethod[[int], str].__origin__ is ActorMethod
    assert skate.ActorHandle[int].__origin__ is skate.ActorHandle
    assert skate.ActorClass[int].__origin__ is skate.ActorClass


def test_the_base_of_typed_actors_adds_nothing() -> None:
    @skate.remote
    class Counter(skate.Actor):
        @skate.method
        def add(self, n: int) -> int:
            return n + 1

    skate.init(engine="inline")
    try:
        counter = Counter.remote()
        assert isinstance(counter, skate.ActorHandle)
        assert skate.get(counter.add.remote(1)) == 2
    finally:
        skate.shutdown()
