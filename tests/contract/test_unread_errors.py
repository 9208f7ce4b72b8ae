"""Errors whose references go away unread are shown, once, on standard error."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

import skate
from skate.util import ActorPool
from tests.support import eventually

pytestmark = pytest.mark.engines("inline", "local")  # Ray shows those of its own
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def all_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("skate"), "level", logging.NOTSET)


@skate.remote
def fail(text: str) -> None:
    raise ValueError(text)


@skate.remote
def fail_otherwise() -> None:
    raise KeyError("of another kind")


@skate.remote
def use(value: Any) -> Any:
    return value


@skate.remote
def get_all(refs: list[Any]) -> str:
    try:
        skate.get(refs)
    except ValueError:
        return "seen"
    return "not seen"


@skate.remote
class Fragile:
    def __init__(self, whole: bool = True) -> None:
        if not whole:
            raise RuntimeError("broken from the start")

    def fail(self) -> None:
        raise OSError("no such luck")

    def work(self) -> int:
        return 1


def shown(capsys: Captured, text: str) -> str:
    """All that was written, as soon as `text` is part of it."""
    written: list[str] = []

    def there() -> bool:
        gc.collect()
        written.append(capsys.readouterr().err)
        return text in "".join(written)

    eventually(there)
    return "".join(written)


def ended(capsys: Captured) -> str:
    """All that was written until the session has ended."""
    gc.collect()
    skate.shutdown()
    return capsys.readouterr().err


def test_a_task_that_nobody_asks_for(engine: str, capsys: Captured) -> None:
    fail.remote("nobody knows")
    text = shown(capsys, "ValueError: nobody knows")
    assert "skate: fail() has failed, and nobody has read its result:\n" in text
    assert "in fail\n" in text
    assert ended(capsys) == ""


def test_a_reference_that_was_only_waited_for(engine: str, capsys: Captured) -> None:
    ref = fail.remote("waited for")
    skate.wait([ref])
    del ref
    shown(capsys, "ValueError: waited for")


def test_a_call_of_an_actor(engine: str, capsys: Captured) -> None:
    actor = Fragile.remote()
    actor.fail.remote()
    assert skate.get(actor.work.remote()) == 1
    assert "Fragile.fail() has failed" in shown(capsys, "OSError: no such luck")


def test_an_actor_that_could_not_be_made(engine: str, capsys: Captured) -> None:
    actor = Fragile.remote(False)
    eventually(lambda: "DEAD" in [row["state"] for row in skate.util.state.list_actors()])
    del actor
    assert "Fragile.__init__() has failed" in shown(capsys, "RuntimeError: broken from the start")


def read_by_get() -> None:
    with pytest.raises(ValueError, match="ValueError: "):
        skate.get(fail.remote("read"))


def read_with_others() -> None:
    with pytest.raises(ValueError, match="ValueError: "):
        skate.get([fail.remote("one"), fail.remote("two"), fail.remote("three")])


def passed_on() -> None:
    with pytest.raises(ValueError, match="ValueError: "):
        skate.get(use.remote(fail.remote("passed on")))


def read_by_a_task() -> None:
    assert skate.get(get_all.remote([fail.remote("seen elsewhere")])) == "seen"


def told_by_a_call() -> None:
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(Fragile.remote(False).work.remote())


def future() -> None:
    assert isinstance(fail.remote("future").future().exception(), ValueError)


def pool() -> None:
    with pytest.raises(OSError, match="luck"):
        list(ActorPool([Fragile.remote()]).map(lambda actor, _: actor.fail.remote(), [1]))


def cancelled() -> None:
    actor = Fragile.remote()
    skate.get(actor.work.remote())
    skate.kill(actor)
    actor.work.remote()


READ = [read_by_get, read_with_others, passed_on, read_by_a_task, told_by_a_call, future, pool,
        cancelled]  # fmt: skip


@pytest.mark.parametrize("read", READ)
def test_what_was_read_is_not_shown(
    engine: str, capsys: Captured, read: Callable[[], None]
) -> None:
    read()
    assert ended(capsys) == ""


def test_one_of_a_kind_is_shown_and_the_rest_counted(engine: str, capsys: Captured) -> None:
    kept = [fail.remote(f"number {number}") for number in range(20)]
    kept.append(fail_otherwise.remote())
    skate.wait(kept, num_returns=len(kept))
    text = ended(capsys)
    assert text.count("ValueError: number") == 1
    assert text.count("KeyError: 'of another kind'") == 1
    assert "skate: 19 more errors were not read" in text


@pytest.mark.parametrize(
    "variable", ["SKATE_IGNORE_UNHANDLED_ERRORS", "RAY_IGNORE_UNHANDLED_ERRORS", "SKATE_QUIET"]
)
def test_a_switch_turns_it_off(
    engine: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    skate.wait([fail.remote("unseen")])
    assert ended(capsys) == ""
