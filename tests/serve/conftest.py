"""One session of serving for the tests of a module; each test has its applications to itself.
What is left behind is looked for when the session ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import skate
from skate import serve
from tests.leftovers import Picture, leftovers_since


@pytest.fixture(autouse=True)
def leaves_nothing() -> None:
    """See `serving`."""


def _session(engine: str) -> Iterator[str]:
    before = Picture.take()
    skate.init(engine=engine, num_cpus=2)
    serve.start(proxy_location="Disabled")
    yield engine
    serve.shutdown()
    skate.shutdown()
    if found := leftovers_since(before):
        pytest.fail("left behind:\n  " + "\n  ".join(found), pytrace=False)


@pytest.fixture(scope="module", params=["inline", "local"])
def serving(request: pytest.FixtureRequest) -> Iterator[str]:
    """Handles without HTTP, on every engine that runs here."""
    yield from _session(request.param)


@pytest.fixture(scope="module")
def local_serving() -> Iterator[str]:
    """The same with processes, for what needs some."""
    yield from _session("local")


@pytest.fixture
def delete_all() -> Iterator[None]:
    yield
    for name in serve.status().applications:
        serve.delete(name)


@pytest.fixture
def run(serving: str, delete_all: None) -> Callable[..., Any]:
    """`serve.run`; what ran is deleted after the test."""
    return serve.run


@pytest.fixture
def run_locally(local_serving: str, delete_all: None) -> Callable[..., Any]:
    return serve.run
