"""A plugin for pytest: a session for a test, and tests that must leave nothing behind.

@pytest.mark.skate_init(num_cpus=2)
def test_pipeline(skate_local):
    assert skate.get(double.remote(2)) == 4
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from skate.testing.leftovers import MARKER, Picture, leftovers_since

if TYPE_CHECKING:
    from skate import ClientContext

_INI = "skate_leaves_nothing"
_MARKERS = (
    "skate_init(**arguments): arguments of skate.init for `skate_inline` and `skate_local`",
    "skate_leaves_nothing: the test fails if it leaves a process, a thread, an open file, a file "
    "of skate, another working directory or a variable behind",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting that applies `skate_leaves_nothing` to all tests."""
    parser.addini(_INI, "every test is marked skate_leaves_nothing", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    for line in _MARKERS:
        config.addinivalue_line("markers", line)
    os.environ.setdefault("SKATE_EARLY_START", "0")  # nothing that a test did not begin


@pytest.fixture(autouse=True)
def _skate_leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    wanted = request.config.getini(_INI) or request.node.get_closest_marker(_INI)
    if not wanted:
        yield
        return
    os.environ.setdefault(MARKER, uuid.uuid4().hex)  # by which orphans are found
    before = Picture.take()
    yield
    if found := leftovers_since(before):
        pytest.fail("left behind:\n  " + "\n  ".join(found), pytrace=False)


@pytest.fixture
def skate_inline(
    request: pytest.FixtureRequest, _skate_leaves_nothing: None
) -> Iterator[ClientContext]:
    """Run everything in the test's process and thread, with breakpoints, mocks and coverage."""
    yield from _session(request, "inline")


@pytest.fixture
def skate_local(
    request: pytest.FixtureRequest, _skate_leaves_nothing: None
) -> Iterator[ClientContext]:
    """Run tasks and actors in processes, as the program does outside of tests."""
    yield from _session(request, "local")


def _session(request: pytest.FixtureRequest, engine: str) -> Iterator[ClientContext]:
    """Begin a session with what `skate_init` says, and end it whatever happens."""
    import skate

    if skate.is_initialized():
        _refuse(
            f"skate_{engine} begins a session of its own, but one runs already: ask for one of "
            "the fixtures only, and end by skate.shutdown() what this test or one before it began"
        )
    arguments: dict[str, Any] = {}
    for mark in reversed([*request.node.iter_markers("skate_init")]):  # the closest wins
        if mark.args:
            _refuse(f"skate_init takes keyword arguments only; got {mark.args!r}")
        arguments.update(mark.kwargs)
    try:
        context = skate.init(engine=engine, **arguments)
    except (TypeError, ValueError) as error:
        _refuse(f"@pytest.mark.skate_init: {error}")
    try:
        yield context
    finally:
        skate.shutdown()


def _refuse(text: str) -> NoReturn:
    """Fail a test for what it asks of the fixtures, without lines of this file."""
    pytest.fail(text, pytrace=False)
