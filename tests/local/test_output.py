"""What workers print, on the driver's terminal: lines, and bars of progress that are redrawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from skate.engine.local.output import Output
from skate.engine.local.reactor import Reactor

Screen = Callable[[], list[str]]


@pytest.fixture
def output() -> Iterator[Output]:
    reactor = Reactor()
    made = Output(reactor, enabled=True)
    yield made
    made.close()
    reactor.close()


@pytest.fixture
def screen(capsys: pytest.CaptureFixture[str]) -> Screen:
    """The lines that a terminal would show."""
    shown: list[str] = []

    def look() -> list[str]:
        shown.append(capsys.readouterr().out)
        return _drawn("".join(shown))

    return look


def _drawn(text: str) -> list[str]:
    lines, column = [""], 0
    for letter in text:
        if letter == "\n":
            lines.append("")
            column = 0
        elif letter == "\r":
            column = 0
        else:
            lines[-1] = lines[-1][:column].ljust(column) + letter + lines[-1][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


def test_bars_of_several_workers_share_a_line(output: Output, screen: Screen) -> None:
    for done in range(3):
        for pid in (1, 2):
            output.log(pid, 1, "g", f"\rwork: {done}/3 and more")
    assert screen() == ["(g pid=2) work: 2/3 and more"]
    output.log(1, 1, "g", "\rwork: 3/3\n")
    output.log(2, 1, "g", "\rwork: 3/3\n")
    assert screen() == ["(g pid=1) work: 3/3", "(g pid=2) work: 3/3", ""]


def test_a_bar_makes_room_for_lines_of_others(output: Output, screen: Screen) -> None:
    output.log(1, 1, "g", "\rwork: 1/3 a long bar")
    output.log(2, 1, "f", "hello\n")
    output.log(1, 1, "g", "\rwork: 2/3")
    assert screen() == ["(f pid=2) hello", "(g pid=1) work: 2/3"]


def test_a_bar_that_returns_after_each_update(output: Output, screen: Screen) -> None:
    """As Keras writes it."""
    output.log(1, 1, "g", "1/3 ....\r")
    output.log(2, 1, "g", "1/3 ..\r")
    output.log(1, 1, "g", "2/3\r")
    assert screen() == ["(g pid=1) 2/3"]


def test_an_unfinished_line_that_is_no_bar_stays(output: Output, screen: Screen) -> None:
    output.log(1, 1, "g", "thinking ...")
    output.log(2, 1, "f", "hello\n")
    output.log(1, 1, "g", "\r1/2")
    output.log(1, 1, "g", "\n")
    assert screen() == ["(g pid=1) thinking ...", "(f pid=2) hello", "(g pid=1) 1/2", ""]


def test_what_was_printed_lately_is_kept(output: Output) -> None:
    output.log(1, 1, "g", "one\n")
    output.log(2, 2, "f", "two\n")
    rows = output.recent.since(0)
    assert [(row["pid"], row["stream"], row["label"], row["text"]) for row in rows] == [
        (1, 1, "g", "one\n"),
        (2, 2, "f", "two\n"),
    ]
    assert [row["text"] for row in output.recent.since(rows[0]["number"])] == ["two\n"]
    for _ in range(30):
        output.recent.add(1, 1, "g", "x" * 100_000, 0)
    assert sum(len(row["text"]) for row in output.recent.since(0)) <= 1 << 20
