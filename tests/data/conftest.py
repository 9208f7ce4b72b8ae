"""One session of skate for all tests here that want the same: starting one costs more than most of
them. What is left behind is looked for when the session ends: to find out by whom, run single
files. A test that fails ends its session, so that the next ones are not harmed by what it left."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import polars
import pytest

import skate
import skate.data
from tests.leftovers import Picture, leftovers_since


class SharedSession:
    """The session that is running, what it was started with, and how things were before."""

    def __init__(self) -> None:
        self.wanted: tuple[str, dict[str, Any]] | None = None
        self.before: Picture | None = None
        self.is_harmed = False

    def use(self, engine: str, arguments: dict[str, Any]) -> None:
        if self.is_harmed or self.wanted != (engine, arguments) or not skate.is_initialized():
            self.end()
            skate.shutdown()  # what a test that failed holds may have begun one
            self.before = Picture.take()
            skate.init(engine=engine, **arguments)
            self.wanted = (engine, arguments)

    def end(self) -> None:
        if self.wanted is None:
            return
        skate.shutdown()
        is_harmed, self.wanted, self.is_harmed = self.is_harmed, None, False
        assert self.before is not None
        if not is_harmed and (found := leftovers_since(self.before)):
            pytest.fail("left behind:\n  " + "\n  ".join(found), pytrace=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that want the same session follow each other."""

    def place(item: pytest.Item) -> tuple[str, str, str]:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        mark = item.get_closest_marker("init")
        arguments = repr(sorted(mark.kwargs.items())) if mark else ""
        return str(parameters.get("engine_name", "")), arguments, str(item.path)

    here = [item for item in items if "tests/data/" in item.path.as_posix()]
    ordered = iter(sorted(here, key=place))
    chosen = set(here)
    items[:] = [next(ordered) if item in chosen else item for item in items]


@pytest.fixture(scope="package")
def shared_session() -> Iterator[SharedSession]:
    session = SharedSession()
    yield session
    session.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    session = getattr(item, "funcargs", {}).get("shared_session")
    if report.when == "call" and report.failed and session is not None:
        session.is_harmed = True
    return report


@pytest.fixture(scope="session", autouse=True)
def runtime_of_polars(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start what Polars keeps for the life of the process: threads and their descriptors."""
    path = tmp_path_factory.mktemp("polars") / "x.parquet"
    polars.DataFrame({"x": [1]}).write_parquet(path)
    polars.scan_parquet(path).collect(engine="streaming")


@pytest.fixture(autouse=True)
def leaves_nothing() -> None:
    """See `SharedSession.end`."""


@pytest.fixture
def engine(request: pytest.FixtureRequest, shared_session: SharedSession, engine_name: str) -> str:
    """skate is initialised with two CPUs; the value is the engine's name."""
    mark = request.node.get_closest_marker("init")
    shared_session.use(engine_name, {"num_cpus": 2, **(mark.kwargs if mark else {})})
    return engine_name


@pytest.fixture
def context() -> Iterator[skate.data.DataContext]:
    """Settings that end with the test."""
    with skate.data.DataContext.current(skate.data.DataContext.get_current().copy()) as changed:
        yield changed


@pytest.fixture(params=["in memory", "by partitions"])
def memory(request: pytest.FixtureRequest, context: skate.data.DataContext) -> str:
    """Operations work in memory, or by partitions, of which there are several."""
    if request.param == "by partitions":
        context.partition_min_bytes = 0
        context.sort_memory_bytes = 4000
    return str(request.param)
