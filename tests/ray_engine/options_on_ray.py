"""Every option reaches Ray: none is accepted and forgotten on the way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skate.engine.ray.functions import remote_function
from skate.engine.ray.hosts import host_class
from skate.engine.ray.options import actor_options, call_options, task_options
from skate.engine.specs import (
    ActorMeta,
    ActorOptions,
    CallOptions,
    ClassSpec,
    FunctionSpec,
    TaskOptions,
)

# Ray takes these where a function or class is made remote, not where it is called.
WHEN_MADE = {"max_calls", "concurrency_groups"}


class Reading:
    """Options that remember what somebody has looked at."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self.options, name)


def read_by_translation(kind: type[Any]) -> set[str]:
    """The fields that are looked at on the way to Ray's keywords."""
    given: dict[str, Any] = {"num_returns": 2} if kind is not ActorOptions else {}
    if kind is not CallOptions:
        group = SimpleNamespace(
            is_empty=False, _ref=SimpleNamespace(_entry=SimpleNamespace(group=None))
        )
        given = {**given, "placement_group": group}
    read: set[str] = set()
    for options in (kind(**given), kind()):  # with a group, the strategy does not count
        reading: Any = Reading(options)
        if kind is TaskOptions:
            task_options(reading)
        elif kind is ActorOptions:
            actor_options(reading)
        else:
            call_options(reading, "method")
        read |= reading.read
    return read


@pytest.mark.parametrize("kind", [TaskOptions, ActorOptions, CallOptions])
def test_every_option_is_translated(kind: Any) -> None:
    assert read_by_translation(kind) == set(kind._fields) - WHEN_MADE


def test_options_of_what_is_made_remote_are_passed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def remote(**given: Any) -> Any:
        made.append(given)
        return lambda _: SimpleNamespace(options=lambda **_: None)

    monkeypatch.setattr("ray.remote", remote)
    session = object()
    remote_function(FunctionSpec(len, "len"), TaskOptions(max_calls=7), session)
    groups = ActorOptions(concurrency_groups={"io": 2})
    host_class(ClassSpec(Reading, ActorMeta("Reading", __name__, {})), groups, session)
    assert made == [{"max_calls": 7}, {"concurrency_groups": {"io": 2}}]
