"""What the state API says of the calls that serve itself makes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate
from skate import serve
from skate.util.state import list_actors, list_tasks


@skate.remote
def of_user() -> str:
    return "done"


@serve.deployment
class Asker:
    async def __call__(self) -> str:
        answer: str = await of_user.remote()
        return answer


@pytest.fixture
def session() -> Iterator[None]:
    skate.init(num_cpus=2)
    serve.start(proxy_location="Disabled")
    yield
    serve.shutdown()
    skate.shutdown()


def run_and_ask() -> list[tuple[str, str]]:
    handle = serve.run(Asker.bind())
    assert handle.remote().result() == "done"
    assert [row for row in list_actors() if row.class_name == "ServeReplica:default:Asker"]
    return [(row.name, row.state) for row in list_tasks()]


def test_calls_of_serve_are_not_listed(session: None) -> None:
    assert [name for name, _ in run_and_ask()] == ["of_user"]


def test_calls_of_serve_are_listed_if_asked_for_but_not_those_that_never_end(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("RAY_SERVE_ENABLE_TASK_EVENTS", "1")
    request.getfixturevalue("session")
    tasks = run_and_ask()
    assert any("Asker" in name for name, _ in tasks)
    assert not [task for task in tasks if task[1] == "RUNNING"]
