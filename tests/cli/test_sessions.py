"""`skate status`, `list`, `stack`, `memory`, `timeline`, `logs`: a program, seen from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skate.cli import main
from skate.engine.sessions import Session, sessions, state_of
from tests.support import PATIENCE, Program, eventually, run_program

PROGRAM = Path(__file__).parent / "looked_at.py"
ROOT = Path(__file__).parents[2]


def started(folder: Path, how: str = "waits") -> Program:
    program = Program(
        [sys.executable, PROGRAM, folder, how],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "SKATE_CALL_SITES": "1"},
    )
    assert program.stdout is not None
    for line in program.stdout:
        if line == "up\n":
            return program
    raise AssertionError("the program has ended")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    one = started(tmp_path_factory.mktemp("program"))
    yield one
    Program.started.remove(one)
    one.end()


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    assert not ended.value.code, told.err
    return told.out


def rows(capsys: pytest.CaptureFixture[str], program: Program, *arguments: str) -> list[Any]:
    found: list[Any] = json.loads(said(capsys, *arguments, "--session", program.pid, "--json"))
    return found


def line_of(text: str) -> int:
    lines = PROGRAM.read_text().splitlines(keepends=True)
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def innermost(row: dict[str, Any]) -> tuple[str, int]:
    """The last frame of the program itself, in the main thread."""
    (thread,) = [one for one in row["threads"] if one["is_main"]]
    own = [frame for frame in thread["frames"] if frame["file"] == str(PROGRAM)]
    return (own[-1]["function"], own[-1]["line"]) if own else ("", 0)


# -- status and lists -----------------------------------------------------------------------------


def test_status(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(capsys, program, "status")
    assert (row["pid"], row["answers"], row["stopped"]) == (program.pid, True, False)
    assert row["namespace"] == "looked-at"
    assert row["actors"] == {"ALIVE": 1}
    assert row["tasks"]["RUNNING"] == 4
    assert row["resources"]["CPU"] == 4
    assert row["object_bytes"] >= 200_000
    assert row["resident_bytes"] > 1_000_000
    text = said(capsys, "status", "--session", program.pid)
    assert f"session {program.pid}  {sys.executable} {PROGRAM}" in text
    assert "2 of 4 CPU" in text
    assert f"session {program.pid}" in said(capsys, "status")


def test_lists(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = rows(capsys, program, "list", "tasks", "--filter", "state=RUNNING")
    assert {row["name"] for row in tasks} == {"caller", "sleeper", "Counter.wait", "hog"}
    assert {row["session"] for row in tasks} == {program.pid}
    (actor,) = rows(capsys, program, "list", "actors")
    assert (actor["class_name"], actor["name"], actor["state"]) == ("Counter", "counting", "ALIVE")
    sizes = [row["object_size"] for row in rows(capsys, program, "list", "objects")]
    assert max(sizes) >= 200_000
    workers = rows(capsys, program, "list", "workers")
    doing = {(row["state"], *row["runs"]) for row in workers}
    assert {("WAITING", "caller"), ("BUSY", "sleeper"), ("BUSY", "hog")} <= doing
    table = said(capsys, "list", "workers", "--session", program.pid)
    assert table.splitlines()[0].split() == ["session", "pid", "state", "runs", "resident"]
    assert rows(capsys, program, "list", "datasets") == []
    assert said(capsys, "list", "trials", "--session", program.pid) == "no trials\n"


def test_since_when_tasks_run(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    began: dict[str, int | None] = {}

    def known() -> bool:  # processes are given little time to answer
        running = rows(capsys, program, "list", "tasks", "--filter", "state=RUNNING")
        began.update((row["name"], row["start_time_ms"]) for row in running)
        return bool(began["caller"] and began["sleeper"])

    eventually(known)
    assert began["caller"] is not None
    assert began["caller"] <= time.time() * 1000
    assert began["Counter.wait"] is not None


def test_a_limit_and_a_filter(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(rows(capsys, program, "list", "tasks", "--limit", "2")) == 2
    assert "more (--limit)" in said(
        capsys, "list", "tasks", "--limit", "1", "--session", program.pid
    )
    for wrong, hint in (("state", "KEY=VALUE"), ("colour=red", "got 'colour'")):
        with pytest.raises(SystemExit) as ended:
            main(["list", "tasks", "--filter", wrong, "--session", str(program.pid)])
        assert ended.value.code == 1
        assert hint in capsys.readouterr().err


def test_memory_says_who_holds_what_and_which_line_made_it(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    largest = rows(capsys, program, "memory")[0]
    assert largest["size"] >= 200_000
    assert (largest["made_by"], largest["held_by"]) == ("put in the driver", ["driver"])
    assert largest["line"] == f"{PROGRAM}:{line_of('skate.put(')} in main"
    assert "put in the driver" in said(capsys, "memory", "--session", program.pid)


def test_logs(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    (piece,) = [
        json.loads(line)
        for line in said(capsys, "logs", "--session", program.pid, "--json").splitlines()
    ]
    assert (piece["label"], piece["text"], piece["stream"]) == ("caller", "calling\n", 1)
    shown = f"(caller pid={piece['pid']}) calling\n"
    assert said(capsys, "logs", "--session", program.pid) == shown
    assert said(capsys, "logs", "--session", program.pid, "--pid", program.pid) == ""


def test_timeline(program: Program, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "timeline.json"
    assert "1 spans" in said(capsys, "timeline", file, "--session", program.pid)
    events = json.loads(file.read_text())
    assert [event["name"] for event in events if event["ph"] == "X"] == ["Counter.__init__"]


# -- stacks ---------------------------------------------------------------------------------------


def stacks(capsys: pytest.CaptureFixture[str], pid: int) -> list[Any]:
    found: list[Any] = json.loads(said(capsys, "stack", pid, "--json"))
    return found


def test_stacks_of_all_processes(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {
        ("main", line_of("skate.get(pending)")),
        ("sleeper", line_of("time.sleep(3600)")),
        ("caller", line_of("skate.get(sleeper")),
        ("hog", line_of("# keeps the GIL")),
    }
    found: list[Any] = []

    def all_are_there() -> bool:  # the program is up when all have been begun
        found[:] = stacks(capsys, program.pid)
        return wanted <= {innermost(row) for row in found}

    eventually(all_are_there)
    driver, *workers = found
    assert (driver["pid"], driver["role"]) == (program.pid, "driver")
    running = {run["name"]: row for row in workers for run in row.get("runs", ())}
    caller = running["caller"]
    (wait,) = caller["waits_for"]
    assert (wait["name"], wait["state"]) == ("sleeper", "RUNNING")
    assert wait["pid"] == running["sleeper"]["pid"]
    assert {wait["name"] for wait in driver["waits_for"]} == {"caller", "Counter.wait", "hog"}


def test_the_stack_of_a_worker_whose_gil_is_taken(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    (worker,) = [row for row in rows(capsys, program, "list", "workers") if "hog" in row["runs"]]
    eventually(lambda: stacks(capsys, worker["pid"])[0]["state"] == "busy")
    (row,) = stacks(capsys, worker["pid"])  # the first look has not woken it
    assert row["state"] == "busy"
    assert innermost(row) == ("hog", line_of("sleep(3600)  # keeps the GIL"))
    text = said(capsys, "stack", worker["pid"])
    assert "busy in C code" in text
    assert f"{PROGRAM}:{line_of('# keeps the GIL')} in hog" in text


def test_coroutines_that_wait(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    inner = f"{PROGRAM}:{line_of('Event().wait()')} in"
    eventually(lambda: inner in said(capsys, "stack", program.pid))
    text = said(capsys, "stack", program.pid)
    assert f"{PROGRAM}:{line_of('await self.forever')} in" in text
    assert "reactor.py" not in text
    assert "reactor.py" in said(capsys, "stack", program.pid, "--full")


def test_a_driver_that_is_busy_in_c_code_or_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, "busy") as busy:
        eventually(lambda: stacks(capsys, busy.pid)[0]["state"] == "busy")
        (row,) = rows(capsys, busy, "status")
        assert (row["answers"], row["stopped"]) == (False, False)
        driver, *workers = stacks(capsys, busy.pid)
        assert driver["state"] == "busy"
        assert innermost(driver) == ("main", line_of("ctypes.PyDLL(None).sleep(3600)\n"))
        assert {row["title"] for row in workers} >= {"skate::caller", "skate::sleeper"}

        busy.send_signal(signal.SIGSTOP)
        eventually(lambda: state_of(busy.pid) == "T")
        (row,) = rows(capsys, busy, "status")
        assert row["stopped"]
        text = said(capsys, "stack", busy.pid)
        assert "stopped" in text.splitlines()[0]
        assert f"`kill -CONT {busy.pid}` lets it go on" in text
        busy.kill_group()


# -- ends -----------------------------------------------------------------------------------------


def test_what_is_left_of_a_dead_session_is_removed(tmp_path: Path) -> None:
    with started(tmp_path) as program:
        (home,) = [one.home for one in sessions() if one.pid == program.pid]
        family = Session(program.pid, home).processes()
        assert len(family) == 5
        everybody = {program.pid, *family, *(parent_of(pid) for pid in family[1:])}
        # All at once, so that nobody is left to tidy up.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in everybody:
                os.kill(pid, number)
        program.wait(PATIENCE)
    eventually(lambda: all(state_of(pid) in (None, "Z") for pid in everybody))
    assert os.path.exists(home)
    assert program.pid not in [one.pid for one in sessions()]
    assert not os.path.exists(home)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_without_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["list", "tasks", "--session"], ["memory", "--session"], ["stack"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, str(os.getpid())])
        assert ended.value.code == 1
        assert "session" in capsys.readouterr().err


def test_the_command_itself(program: Program) -> None:
    done = run_program(
        [sys.executable, "-m", "skate", "status", "--session", str(program.pid)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        check=True,
    )
    assert f"session {program.pid}" in done.stdout


def test_a_session_that_has_just_ended_is_no_news(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = Session(os.getpid(), str(tmp_path / "gone"))
    monkeypatch.setattr("skate.engine.sessions.sessions", lambda: [ended])
    with pytest.raises(SystemExit):
        main(["list", "tasks"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [("list", "tasks"), ("memory",), ("logs",)])
def test_a_session_that_ends_while_it_is_asked_takes_nobody_with_it(
    command: tuple[str, ...],
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (own,) = [one for one in sessions() if one.pid == program.pid]
    found = [Session(os.getpid(), str(tmp_path / "gone")), own]
    monkeypatch.setattr("skate.engine.sessions.sessions", lambda: found)
    assert said(capsys, *command)
