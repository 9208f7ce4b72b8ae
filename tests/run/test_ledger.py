"""What counts after a kill: the ledger alone, killed before, after and within every change."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skate._run import append_buffer, folders, storage
from skate._run.append_buffer import AppendBuffer
from skate._run.checkpoint import Checkpoint
from skate._run.ledger import (
    CHECKPOINTS_FILE,
    RESULT_FILE,
    Ledger,
    NewCheckpoint,
    RunFolderInUseError,
    claimed,
    results_until,
)
from skate._run.result import Result
from skate._run.storage import Storage, write_into


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the program runs after it."""


class Kills:
    """Counts the changes of files, and ends the program at the one with the given number: before
    it, or, where something is added to a file, with half of it written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        self.torn = False
        for name in ("rename", "replace", "unlink", "rmdir", "mkdir"):
            monkeypatch.setattr(os, name, self._guarded(getattr(os, name)))
        whole = folders.append_whole
        for module in (append_buffer, storage):
            monkeypatch.setattr(module, "append_whole", self._guarded_append(whole))

    def at(self, number: int, torn: bool) -> None:
        self.left, self.torn = number, torn

    def _strikes(self) -> bool:
        self.left -= 1
        return self.left == -1

    def _guarded(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if self._strikes():
                raise Killed
            return change(*args, **kwargs)

        return guarded

    def _guarded_append(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(place: str, data: bytes, synced: bool = False) -> None:
            if self._strikes():
                if self.torn:
                    whole(place, data[: len(data) // 2])
                raise Killed
            whole(place, data, synced)

        return guarded


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Kills:
    return Kills(monkeypatch)


def opened(place: Path) -> tuple[Storage, Ledger]:
    """As a program that takes up what is there."""
    folder = Storage(place, "run")
    ledger = Ledger(folder)
    ledger.delete_unfinished(ledger.results())
    ledger.open()
    return folder, ledger


def report(folder: Storage, ledger: Ledger, step: int, name: str) -> None:
    write_into(folder.draft(name), Checkpoint.from_dict({"step": step}))
    checkpoint = folder.checkpoint(name)
    new = NewCheckpoint(name, checkpoint, lambda: void(folder.put_into_place(name)))
    ledger.record({"training_iteration": step, "checkpoint_dir_name": name}, new)


def void(value: object) -> None:
    """Drop a value."""


def steps_of(ledger: Ledger) -> list[int]:
    return [row["training_iteration"] for row in ledger.results()]


def instants(place: Path, kills: Kills, program: Callable[[Path], None]) -> Iterator[Path]:
    """Run a program again and again, killed at each instant in turn, until it gets through."""
    for torn in (False, True):
        number = 0
        while True:
            folder = place / f"{number}{torn}"
            kills.at(number, torn)
            try:
                program(folder)
            except Killed:
                kills.at(-1, False)
                yield folder
                number += 1
            else:
                kills.at(-1, False)
                break
        assert number > 10


@pytest.mark.parametrize("name", ["checkpoint_{:06d}", "last"])
def test_a_kill_at_any_instant_of_a_report(tmp_path: Path, kills: Kills, name: str) -> None:
    acknowledged: list[int] = []

    def program(place: Path) -> None:
        acknowledged.clear()
        folder, ledger = opened(place)
        for step in (1, 2, 3):
            report(folder, ledger, step, name.format(step))
            acknowledged.append(step)

    for place in instants(tmp_path, kills, program):
        done = list(acknowledged)
        left = Ledger(Storage(place, "run"))  # who only looks
        assert steps_of(left) in (done, [*done, len(done) + 1])
        happened = steps_of(left)
        found = [one.checkpoint.to_dict()["step"] for one in left.checkpoints()]
        assert found == (happened if "{" in name else happened[-1:])
        folder, ledger = opened(place)  # who goes on
        assert steps_of(ledger) == happened
        for step in range(len(happened) + 1, 4):
            report(folder, ledger, step, name.format(step))
        assert steps_of(ledger) == [1, 2, 3]
        assert ledger.checkpoints()[-1].checkpoint.to_dict() == {"step": 3}
        names = {one.checkpoint.path for one in ledger.checkpoints()}
        there = [n for n in folder.names() if n not in (RESULT_FILE, CHECKPOINTS_FILE)]
        assert {folder.checkpoint(n).path for n in there} == names


def test_a_kill_while_results_are_taken_back(tmp_path: Path, kills: Kills) -> None:
    def program(place: Path) -> None:
        folder, ledger = opened(place)
        for step in (1, 2, 3):
            report(folder, ledger, step, f"c{step}")
        ledger.keep_results(results_until(ledger.results(), "c1"))
        report(folder, ledger, 2, "again")

    for place in instants(tmp_path, kills, program):
        _, ledger = opened(place)
        assert steps_of(ledger) in ([], [1], [1, 2], [1, 2, 3])
        assert len(ledger.checkpoints()) == len(steps_of(ledger))


def test_a_checkpoint_that_is_saved_alone_counts_at_once(tmp_path: Path) -> None:
    folder, ledger = opened(tmp_path)
    write_into(folder.draft("c"), Checkpoint.from_dict({"step": 1}))
    checkpoint = folder.checkpoint("c")
    ledger.record(None, NewCheckpoint("c", checkpoint, lambda: void(folder.put_into_place("c"))))
    (found,) = Ledger(folder).checkpoints()
    assert found.checkpoint == checkpoint
    assert ledger.results() == []


def test_numbers_are_not_given_twice(tmp_path: Path) -> None:
    folder, ledger = opened(tmp_path)
    assert ledger.next_number([]) == 0
    report(folder, ledger, 1, "checkpoint_000007")
    report(folder, ledger, 2, "of-my-own")
    assert ledger.next_number(ledger.results()) == 8


def test_results_that_wait_are_written_before_anybody_reads(tmp_path: Path) -> None:
    folder = Storage(tmp_path, "run")
    ledger = Ledger(folder)
    ledger.open(AppendBuffer(flush_every_s=3600))
    ledger.add_result({"n": 1})
    assert folder.lines(RESULT_FILE) == []
    assert ledger.results() == [{"n": 1}]
    ledger.add_result({"n": 2})
    ledger.settle()
    assert folder.lines(RESULT_FILE) == [{"n": 1}, {"n": 2}]
    ledger.add_result({"n": 3})
    ledger.keep_results(ledger.results()[:1])
    ledger.close()
    assert folder.lines(RESULT_FILE) == [{"n": 1}]


def test_one_that_is_not_open_writes_nothing(tmp_path: Path) -> None:
    ledger = Ledger(Storage(tmp_path, "run"))
    ledger.add_result({"n": 1})
    assert not ledger.is_open
    assert ledger.results() == []


def test_one_program_at_a_time(tmp_path: Path) -> None:
    folder = Storage(tmp_path, "run")
    claim = claimed(folder)
    with claimed(folder), pytest.raises(RunFolderInUseError, match="has not ended"), claim:
        pass
    with claimed(folder):
        pass


def test_what_a_crash_left_of_a_last_line_is_dropped_where_there_is_a_folder(
    tmp_path: Path,
) -> None:
    ledger = Ledger(Storage(tmp_path, "run"))
    assert ledger.is_new()
    ledger.open()
    ledger.add_result({"n": 1})
    ledger.close()
    with open(tmp_path / "run" / RESULT_FILE, "a") as file:
        file.write('{"n":')
    assert not ledger.is_new()
    ledger.open()
    ledger.add_result({"n": 2})
    assert ledger.results() == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("odd", [[], {}, 1.5, True, None, "x"], ids=str)
def test_results_of_others_may_have_anything_in_them(tmp_path: Path, odd: object) -> None:
    (tmp_path / "checkpoint_000000").mkdir()
    lines = [
        {"loss": odd, "training_iteration": odd, "checkpoint_dir_name": odd},
        {"loss": 1, "training_iteration": 2, "checkpoint_dir_name": "checkpoint_000000"},
        {"loss": 2, "training_iteration": 3, "deep": odd},
    ]
    (tmp_path / "result.json").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    with (tmp_path / "result.json").open("a") as file:
        file.write(f"{'[' * 100_000}\n")
    result = Result.from_path(str(tmp_path))
    assert result.metrics is not None
    assert (result.metrics["loss"], result.checkpoint) != (None, None)
    assert "loss" in result._repr_html_()


def test_a_pipe_in_the_place_of_results_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "result.json")
    with pytest.raises(OSError, match="no file"):
        Result.from_path(str(tmp_path))
