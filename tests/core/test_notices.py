"""Lines on standard error, and what silences them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from skate._core import notices


@pytest.fixture(autouse=True)
def all_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("skate"), "level", logging.NOTSET)


def test_single_lines_on_standard_error(capsys: Any) -> None:
    notices.say("good to know")
    notices.warn("look at it")
    assert capsys.readouterr() == ("", "skate: good to know\nskate: look at it\n")


def test_the_same_is_said_once(capsys: Any) -> None:
    for _ in range(3):
        notices.once("test_the_same_is_said_once", "again")
    assert capsys.readouterr().err == "skate: again\n"


def test_patience_ends_with_the_outermost_block() -> None:
    with notices.patient():
        with notices.patient():
            pass
        assert notices.is_patient()
    assert not notices.is_patient()


def test_one_switch_for_all(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKATE_QUIET", "1")
    notices.say("a")
    notices.warn("b")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("level", "written"),
    [("INFO", "skate: a\nskate: b\n"), ("WARNING", "skate: b\n"), ("ERROR", "")],
)
def test_the_level_of_the_logger(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, level: str, written: str
) -> None:
    monkeypatch.setattr(logging.getLogger("skate"), "level", getattr(logging, level))
    notices.say("a")
    notices.warn("b")
    assert capsys.readouterr().err == written
