"""Processes that a test leaves behind: children, orphans, and nobody else's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skate.testing import leftovers
from tests.leftovers import MARKER, Picture
from tests.support import Program, eventually

FORKS_AND_ENDS = """
import os, time
if (child := os.fork()) == 0:
    os.setsid()
    time.sleep(1000)
print(child, flush=True)
"""


def pids(picture: Picture) -> set[int]:
    return {int(text.partition(" ")[0]) for text in picture.processes}


def test_a_child_is_found_without_the_marker_and_while_it_lives() -> None:
    Picture.take()  # with all others known
    bare = {name: value for name, value in os.environ.items() if name != MARKER}
    with Program([sys.executable, "-c", "input()"], env=bare, stdin=subprocess.PIPE) as child:
        assert child.pid in pids(Picture.take())
        assert child.pid in pids(Picture.take())
        child.communicate("\n")
    assert child.pid not in pids(Picture.take())


def test_an_orphan_is_found_by_the_marker() -> None:
    Picture.take()
    with Program([sys.executable, "-c", FORKS_AND_ENDS], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
    try:
        assert orphan in pids(Picture.take())
    finally:
        os.kill(orphan, signal.SIGKILL)
    eventually(lambda: orphan not in pids(Picture.take()))


def test_one_without_a_command_line_is_known_and_not_left_behind() -> None:
    before = replace(Picture.take(), processes=frozenset({"7 "}))  # just being executed
    after = replace(before, processes=frozenset({"7 python program.py ", "8 "}))
    assert after.new_since(before) == []
    assert before.new_since(replace(before, processes=frozenset())) == []
    new = replace(before, processes=frozenset({"9 python program.py "}))
    assert new.new_since(before) == ["processes: 9 python program.py "]


def test_processes_of_others_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Picture.take()
    looked_at: list[int] = []
    look = leftovers._parent

    def parent(pid: int) -> Any:
        looked_at.append(pid)
        return look(pid)

    monkeypatch.setattr(leftovers, "_parent", parent)
    assert os.getppid() not in pids(Picture.take())
    assert os.getpid() in looked_at
    assert os.getppid() not in looked_at


@pytest.fixture
def home_of_the_dead() -> Iterator[Path]:
    with Program([sys.executable, "-c", ""]) as ended:
        ended.wait()
    home = Path("/dev/shm", f"skate-user-{ended.pid}-of-a-test")  # with no other number
    home.mkdir()
    yield home
    shutil.rmtree(home)


@pytest.mark.parametrize(("place", "is_ours"), [("/elsewhere", False), (None, True)])
def test_homes_of_others_who_were_killed_are_theirs(
    home_of_the_dead: Path, place: str | None, is_ours: bool, tmp_path: Path
) -> None:
    (home_of_the_dead / "lock").write_text(place or str(tmp_path))
    assert (str(home_of_the_dead) in Picture.take().files) is is_ours


def test_homes_of_drivers_that_were_killed_while_they_made_them_are_nobodys(
    home_of_the_dead: Path,
) -> None:
    (home_of_the_dead / "lock.new").touch()
    assert str(home_of_the_dead) not in Picture.take().files
    (home_of_the_dead / "objects").mkdir()
    assert str(home_of_the_dead) in Picture.take().files


def test_a_folder_that_is_left_is_told_with_its_content(
    home_of_the_dead: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "GRACE_SECONDS", 0)
    before = Picture.take()
    (home_of_the_dead / "lock").write_text(str(tmp_path))
    assert leftovers.leftovers_since(before) == [f"files: {home_of_the_dead} with ['lock']"]
