"""The path to what cannot be serialised."""

from __future__ import annotations

import functools
import io
import threading
from typing import Any

import pytest

from skate._core.unpicklable import find_culprits
from skate.util import inspect_serializability

LOCK = threading.Lock()


class Config:
    me: Any

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Slotted:
    __slots__ = ("lock", "name")

    def __init__(self) -> None:
        self.name, self.lock = "n", threading.Lock()


class Stubborn:
    def __reduce__(self) -> Any:
        raise RuntimeError("no")


class Picky:
    def __getstate__(self) -> Any:
        return {"fine": 1, "bad": threading.Lock()}


def paths(obj: Any, name: str = "config", **options: Any) -> list[str]:
    return [str(culprit) for culprit in find_culprits(obj, name, **options)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (threading.Lock(), "config: _thread.lock"),
        (Config(lock=threading.Lock(), size=3), "config.lock: _thread.lock"),
        (
            Config(inner=Config(a=[0, {"k": threading.Lock()}])),
            "config.inner.a[1]['k']: _thread.lock",
        ),
        ((1, threading.Lock()), "config[1]: _thread.lock"),
        ({"file": io.TextIOWrapper(io.BytesIO())}, "config['file']: _io.TextIOWrapper"),
        (Slotted(), "config.lock: _thread.lock"),
        (Picky(), "config.bad: _thread.lock"),
        (functools.partial(print, threading.Lock()), "config.args[0]: _thread.lock"),
        (Config(lock=threading.Lock()).__init__, "config.__self__.lock: _thread.lock"),  # type: ignore[misc]
    ],
)
def test_the_path_leads_to_the_smallest_part_that_fails(value: Any, expected: str) -> None:
    assert paths(value) == [expected]


def test_a_value_that_can_be_serialised_has_no_culprit() -> None:
    assert paths(Config(a=1, f=lambda: Config)) == []


def test_all_culprits_are_named() -> None:
    assert paths({"a": threading.Lock(), "b": 1, "c": iter([]), "d": (x for x in "")}) == [
        "config['a']: _thread.lock",
        "config['d']: generator",
    ]


def test_what_a_function_captures_is_named_as_the_user_wrote_it() -> None:
    config = Config(lock=threading.Lock())
    assert paths(lambda: config, "f") == ["config.lock: _thread.lock"]


def test_defaults_of_a_function_are_looked_at() -> None:
    lock = threading.Lock()
    assert paths(lambda a, b=lock: a, "f") == ["default of b: _thread.lock"]
    assert paths(lambda *, b=lock: b, "f") == ["default of b: _thread.lock"]


def test_globals_that_a_function_uses_are_looked_at() -> None:
    scope: dict[str, Any] = {"__name__": "__main__", "LOCK": LOCK}
    exec("def f():\n    return [LOCK for _ in range(3)]", scope)
    assert paths(scope["f"], "f") == ["LOCK: _thread.lock"]


def test_a_function_inside_a_value_shows_both_parts_of_the_path() -> None:
    lock = threading.Lock()
    assert paths(Config(callback=lambda: lock)) == ["config.callback → lock: _thread.lock"]


def test_members_of_a_local_class_are_looked_at() -> None:
    class Local:
        lock = threading.Lock()

        def method(self) -> None: ...

    assert paths(Local, "Local") == ["Local.lock: _thread.lock"]
    assert paths(Local(), "local") == ["local.__class__.lock: _thread.lock"]


def test_a_cycle_ends() -> None:
    config = Config(lock=threading.Lock())
    config.me = config
    assert paths(config) == ["config.lock: _thread.lock"]


def test_a_class_that_refuses_is_its_own_culprit() -> None:
    (culprit,) = find_culprits([Stubborn()], "jobs")
    assert culprit.path == "jobs[0]"
    assert culprit.type_name == f"{__name__}.Stubborn"


def test_depth_limits_the_walk() -> None:
    value = Config(inner=Config(lock=threading.Lock()))
    assert [c.path for c in find_culprits(value, "config", depth=0)] == ["config"]
    assert [c.path for c in find_culprits(value, "config", depth=1)] == ["config.inner"]


def test_many_culprits_are_cut_off() -> None:
    found = find_culprits([threading.Lock() for _ in range(500)], "locks")
    assert 1 < len(found) < 50


def test_inspect_serializability_returns_and_prints_the_culprits() -> None:
    out = io.StringIO()
    lock = threading.Lock()
    fine, culprits = inspect_serializability({"lock": lock}, name="config", print_file=out)
    (culprit,) = culprits
    assert not fine
    assert culprit.obj is lock
    assert culprit.parent == {"lock": lock}
    assert "config['lock']: _thread.lock" in out.getvalue()


def test_inspect_serializability_of_something_fine() -> None:
    out = io.StringIO()
    assert inspect_serializability(len, print_file=out) == (True, set())
    assert "len can be serialized" in out.getvalue()
