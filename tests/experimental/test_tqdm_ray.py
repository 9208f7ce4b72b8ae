"""Bars of progress that the driver draws for its workers."""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import skate
from skate._core import progress_bars
from skate.experimental import tqdm_ray
from tests.support import eventually

pytestmark = pytest.mark.engines("local")


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(progress_bars, "_manager", None)
    monkeypatch.setattr(progress_bars, "_print", print)  # each manager begins with the true one
    monkeypatch.setattr(builtins, "print", print)
    yield tqdm_ray.instance()
    tqdm_ray.instance().close()


@skate.remote
class Busy:
    def __init__(self, desc: str, position: int = 0) -> None:
        self.bar = tqdm_ray.tqdm(desc=desc, total=100, position=position, flush_interval_s=0)
        self.bar.update(42)

    def update(self, count: int) -> None:
        self.bar.set_description("other")
        self.bar.update(count)

    def say(self, word: str) -> None:
        print(word)

    def close(self) -> None:
        self.bar.close()


def bars(manager: Any) -> list[Any]:
    return [bar for group in manager.bar_groups.values() for bar in group.bars_by_uuid.values()]


def test_bars_of_two_actors(start: Any, manager: Any, capfd: pytest.CaptureFixture[str]) -> None:
    start(num_cpus=2)
    first, second = Busy.remote("first"), Busy.remote("second")
    eventually(lambda: len(bars(manager)) == 2)
    assert {bar.bar.n for bar in bars(manager)} == {42}
    assert len({bar.bar.pos for bar in bars(manager)}) == 2  # a line each
    assert builtins.print is tqdm_ray.safe_print
    hides = manager.num_hides
    skate.get([first.say.remote("hello"), first.update.remote(8), second.close.remote()])
    assert manager.num_hides > hides  # to print above the bars
    assert not manager.in_hidden_state
    (left,) = bars(manager)
    assert (left.bar.n, left.bar.pos) == (50, 0)
    assert "other" in left.bar.desc
    skate.get(first.close.remote())
    assert not manager.bar_groups
    assert builtins.print is not tqdm_ray.safe_print
    shown = capfd.readouterr()
    assert tqdm_ray.RAY_TQDM_MAGIC not in shown.out + shown.err
    assert "hello\n" in shown.out
    assert "50.0/100" in shown.err


def test_what_is_like_a_bar_is_printed(
    start: Any, manager: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    start(num_cpus=1)
    say = skate.remote(print)
    magic = tqdm_ray.RAY_TQDM_MAGIC
    skate.get([say.remote(text) for text in (f"{{{magic}", magic, f"{'[' * 100_000}{magic}")])
    assert capfd.readouterr().out.count(magic) == 3
    assert not manager.bar_groups


def test_bars_end_with_the_session(start: Any, manager: Any) -> None:
    start(num_cpus=1)
    actor = Busy.remote("unfinished")
    eventually(lambda: bars(manager))
    assert actor
    skate.shutdown()
    assert not manager.bar_groups
    assert builtins.print is not tqdm_ray.safe_print


def test_bars_of_the_driver(manager: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert [*tqdm_ray.tqdm(iter(range(3)), desc="here", flush_interval_s=0)] == [0, 1, 2]
    assert "here: 3" in capsys.readouterr().err.replace(".00", "")
    with tqdm_ray.tqdm(total=2) as bar:
        bar.n, bar.total = 1, 4
        bar.refresh()
        assert bars(manager)[0].bar.total == 4
        file = io.StringIO()
        print("to a file", file=file)
        print("here", file=sys.stdout)
        assert file.getvalue() == "to a file\n"
    with tqdm_ray.tqdm() as bar, pytest.raises(ValueError, match=r"update\(\)"):
        next(iter(bar))


def test_without_tqdm(manager: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    for _ in tqdm_ray.tqdm(range(3), flush_interval_s=0):
        pass
    assert [record.message for record in caplog.records] == [
        "bars of progress are shown by tqdm: install it"
    ]
    assert not manager.bar_groups  # a group is there with its first bar, not before


def state(closed: bool) -> dict[str, Any]:
    bar = tqdm_ray.tqdm(desc="own", total=10)
    known = {**bar._get_state(), "uuid": "one", "closed": closed}
    bar.close()
    return known


def test_the_users_own_print_is_there_again(
    manager: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(builtins, "print", lambda *words: said.extend(words))
    mine = builtins.print
    for _ in range(2):
        manager.process_state_update(state(closed=False))
        assert builtins.print is tqdm_ray.safe_print
        print("above")
        manager.process_state_update(state(closed=True))
        assert builtins.print is mine
    assert said == ["above", "above"]


def test_a_print_that_the_user_installs_meanwhile_stays(
    manager: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(builtins, "print", builtins.print)
    manager.process_state_update(state(closed=False))

    def mine(word: str, below: Any = builtins.print) -> None:
        below(f"<{word}>")

    builtins.print = mine  # type: ignore[assignment]
    manager.process_state_update(state(closed=True))
    manager.process_state_update(state(closed=False))
    print("once")
    manager.process_state_update(state(closed=True))
    assert builtins.print is mine
    assert capfd.readouterr().out.count("<once>") == 1
