"""What ran when: tasks, and spans that a program has named."""

from __future__ import annotations

import os
from typing import Any

import pytest

import skate
from tests.support import local_only

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def work() -> int:
    with skate.util.profile("inner", {"rows": 3}):
        return os.getpid()


@skate.remote
class Worker:
    def work(self) -> None:
        with skate.util.profile("in an actor"):
            pass


def spans() -> dict[str, dict[str, Any]]:
    return {event["name"]: event for event in skate.timeline() or () if event["ph"] == "X"}


@pytest.mark.engines("inline", "local")
@pytest.mark.differs_from_ray("there it takes seconds until a span is known")
def test_spans_are_on_the_timeline():
    with skate.util.profile("outer"):
        pid = skate.get(work.remote())
        skate.get(Worker.remote().work.remote())
    found = spans()
    assert {"outer", "inner", "in an actor"} <= set(found)
    assert any(name.rpartition(".")[2] == "work" for name in found)
    assert found["inner"]["args"] == {"rows": 3}
    assert found["outer"]["dur"] >= found["inner"]["dur"]
    assert (found["inner"]["tid"] == pid) or found["inner"]["pid"] == pid


@local_only
def test_rows_have_numbers_and_names_as_perfetto_wants_them():
    pid = skate.get(work.remote())
    events = skate.timeline()
    assert all(isinstance(event[key], int) for event in events for key in ("pid", "tid"))
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names[pid] == f"worker {pid}"
    assert {event["pid"] for event in events} == {os.getpid()}


def test_a_span_is_there_even_if_its_block_fails():
    with pytest.raises(ZeroDivisionError), skate.util.profile("failing"):
        1 / 0  # noqa: B018
    assert skate.timeline() is not None


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [((3,), "name takes a string"), (("x", [1]), "extra_data"), (("x", {"a": []}), "extra_data")],
)
def test_what_is_refused(arguments, hint):
    with pytest.raises(TypeError, match=hint):
        skate.util.profile(*arguments)
