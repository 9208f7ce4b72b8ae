"""One suite, every engine.

A test asks for `engine` and finds skate initialised on it; `@pytest.mark.init(num_gpus=2)` adds
arguments, `@pytest.mark.engines("local")` limits the engines, and `--engine inline` picks one.
`start` is for tests that initialise by themselves. Every test fails that leaves something behind.

`--engine ray` runs on the ray engine, except for what `ray_engine/differences.py` lists; one Ray
serves as many tests as possible.

With SKATE_ORACLE=ray the name `skate` is Ray itself: that is how the expectations are checked
against the original. Tests marked `differs_from_ray(reason)` state a deliberate difference.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests import oracle
from tests.imports_of_others import without_imports_of_others
from tests.leftovers import MARKER, Picture, leftovers_since
from tests.ray_engine import differences, sharing
from tests.support import Flag, Program, Tally, handle_signals_as_usual
from tests.time_limit import limit_the_whole

os.environ.setdefault(MARKER, uuid.uuid4().hex)
os.environ["SKATE_EARLY_START"] = "0"  # tests begin their sessions, and end them, by themselves
# Threads of torch that wait for each other do so by looking again and again, which takes the
# processors from the tests that run beside them: some took three times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

ENGINES = ("ray",) if oracle.ACTIVE else ("inline", "local")  # and "ray", if asked for

MARKERS = (
    "engines(*names): the test runs on these engines only",
    "init(**arguments): arguments of skate.init for the `engine` fixture",
    "differs_from_ray(reason): deliberately not what Ray does",
    "leaves(reason): the test does not promise to leave nothing behind in this process",
)

if oracle.ACTIVE:
    oracle.pretend()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", action="append", help="run on this engine only (repeatable)")


def pytest_configure(config: pytest.Config) -> None:
    handle_signals_as_usual()
    limit_the_whole()
    for line in MARKERS:
        config.addinivalue_line("markers", line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine_name" in metafunc.fixturenames:
        metafunc.parametrize("engine_name", _engines_for(metafunc))


def _engines_for(metafunc: pytest.Metafunc) -> list[str]:
    wanted = metafunc.config.getoption("--engine") or ENGINES
    limits = [m.args for m in metafunc.definition.iter_markers("engines")]
    return [name for name in wanted if all(name in limit for limit in limits)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop what makes no sense here, instead of skipping it: a skip should mean something."""
    dropped = [item for item in items if _senseless(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]
    if oracle.ACTIVE:
        oracle.ship_by_value({sys.modules[item.module.__name__] for item in items})


def _engine_of(item: pytest.Item) -> Any:
    """Return the name of the engine that the test runs on; not a string if there is none."""
    return item.callspec.params.get("engine_name") if hasattr(item, "callspec") else None


def _senseless(item: pytest.Item) -> bool:
    engine = _engine_of(item)
    if "engine_name" in item.fixturenames and not isinstance(engine, str):
        return True  # no engine is left for it
    if oracle.ACTIVE:
        return item.get_closest_marker("differs_from_ray") is not None
    return engine == "ray" and differences.reason(item) is not None


@pytest.fixture(autouse=True)
def own_imports_only(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sessions warm up with what their test uses, not with what other tests have imported."""
    if oracle.ACTIVE or not isinstance(module := getattr(request, "module", None), ModuleType):
        yield
        return
    from skate.engine.local.hub import servers

    with pytest.MonkeyPatch.context() as patch:
        for names in ("_QUICK", "_SLOW"):
            own = without_imports_of_others(module, getattr(servers, names))
            patch.setattr(servers, names, own)
        yield


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    before, programs = Picture.take(), len(Program.started)
    yield
    Program.end_all(since=programs)
    shared = "one_session" in request.fixturenames  # which looks when it ends
    if oracle.ACTIVE or _on_ray(request) or request.node.get_closest_marker("leaves") or shared:
        return
    if found := leftovers_since(before):
        pytest.fail("left behind:\n  " + "\n  ".join(found), pytrace=False)


def _on_ray(request: pytest.FixtureRequest) -> bool:
    """Return whether Ray's own processes come and go beside the test."""
    on_ray = _engine_of(request.node) == "ray" or "cluster" in request.fixturenames
    return on_ray or sharing.is_active()


@pytest.fixture
def start(
    request: pytest.FixtureRequest, leaves_nothing: None, engine_name: str
) -> Iterator[Callable[..., Any]]:
    """Call `skate.init` on the engine under test; shut down afterwards, whatever happened."""
    import skate

    if engine_name == "ray" and "engine" not in request.fixturenames:
        sharing.end()  # it starts its own

    def init(**arguments: Any) -> Any:
        if oracle.ACTIVE:
            return oracle.init(**arguments)
        return skate.init(engine=engine_name, **arguments)

    yield init
    if not oracle.ACTIVE:
        skate.shutdown()


@pytest.fixture(scope="session")
def warm_python() -> Iterator[str]:
    """The path of a Python that has torch and other slow packages imported: see `tests.warm`."""
    from tests.warm import warm_python

    with warm_python() as path:
        yield path


@pytest.fixture(scope="session", autouse=True)
def forked_servers() -> Iterator[Any]:
    """Sessions of tests have servers that are forked: see `tests.warm.forked_servers`."""
    if oracle.ACTIVE:  # and Ray starts its processes by itself
        yield None
        return
    from skate.engine.local.hub import servers
    from tests.warm.forked_servers import forked_servers

    usual = servers._spawn
    with pytest.MonkeyPatch.context() as patch, forked_servers(usual) as spawn:
        patch.setattr(servers, "_spawn", spawn)
        yield usual


@pytest.fixture
def usual_servers(forked_servers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of the test have servers as those of users: the test is about these."""
    from skate.engine.local.hub import servers

    monkeypatch.setattr(servers, "_spawn", forked_servers)


@pytest.fixture(scope="class")
def one_session() -> Iterator[None]:
    """One local session for the tests of a class whose workers import what takes seconds."""
    import skate

    before = Picture.take()
    skate.init(engine="local", num_cpus=2)
    yield
    skate.shutdown()
    assert not leftovers_since(before)


@pytest.fixture
def engine(request: pytest.FixtureRequest, start: Callable[..., Any], engine_name: str) -> str:
    """skate is initialised with two CPUs; the value is the engine's name."""
    mark = request.node.get_closest_marker("init")
    arguments = {"num_cpus": 2, **(mark.kwargs if mark else {})}
    if oracle.ACTIVE:
        oracle.share(**arguments)
    elif engine_name == "ray":
        sharing.share(**arguments)
    else:
        start(**arguments)
    return engine_name


@pytest.fixture
def flag(tmp_path: Path) -> Callable[[str], Flag]:
    """Events that cross processes, by name."""
    return lambda name: Flag(tmp_path / f"flag-{name}")


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    """A counter that crosses processes."""
    return Tally(tmp_path / "tally")
