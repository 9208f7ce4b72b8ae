"""The program that watches over rounds of calamities."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.chaos import mixture
from tests.support import Program

pytestmark = pytest.mark.differs_from_ray("a program of ours")


def test_a_round_that_hangs_is_ended_shown_and_counted(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = len(Program.started)
    real = mixture.Watch._follow

    def stop_and_follow(self: mixture.Watch, program: Program, lines: Any, first: int) -> int:
        program.send_signal(signal.SIGSTOP)
        return real(self, program, lines, first)

    monkeypatch.setattr(mixture.Watch, "_follow", stop_and_follow)
    monkeypatch.setattr(mixture, "HUNG_SECONDS", 0.2)
    monkeypatch.setattr(mixture, "PATIENCE", 0.1)
    watch = mixture.Watch(seed=3, rounds=1)
    watch.run(first=5)
    assert watch.score == {"survived": 0, "lost": 0, "hung": 1, "leftovers": 0}
    assert len(Program.started) == before
    out = capfd.readouterr().out
    assert "hung: round 5 (again: --seed 3 --first 5 1)" in out
    assert "1 of 1 rounds: survived 0  lost 0  hung 1" in out
