"""`skate tune`: experiments in a folder, looked at from outside."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import tune
from skate.cli import main
from tests.support import run_program


def trial(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"loss": config["x"] * (3 - step)})
    if config["x"] == 2:
        raise ValueError("too much")


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiments")
    run = tune.RunConfig(name="first", storage_path=str(folder), verbose=0)
    space = {
        "x": tune.grid_search([1, 2, 3]),
        "rows": skate.put([1, 2]),
        "optimizer": {"lr": 0.5},
    }
    tuning = tune.TuneConfig(metric="loss", mode="max")
    tune.Tuner(trial, param_space=space, tune_config=tuning, run_config=run).fit()
    skate.shutdown()
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["tune", *arguments])
    assert not ended.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("is_named", [True, False])
def test_experiments_are_listed(
    is_named: bool,
    experiments: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not is_named:
        monkeypatch.setenv("SKATE_STORAGE", str(experiments))
    path = [str(experiments)] if is_named else []
    (row,) = json.loads(said(capsys, "ls", *path, "--json"))
    assert (row["experiment"], row["trials"]) == ("first", 3)
    assert row["states"] == "1 ERROR, 2 TERMINATED"
    assert row["path"] == str(experiments / "first")


def test_trials_are_shown_the_best_first(
    experiments: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(experiments / "first")
    rows = json.loads(said(capsys, "show", path, "--json"))  # by what the search was about
    assert [row["loss"] for row in rows] == [3, 2, 1]
    assert [row["config/x"] for row in rows] == [3, 2, 1]
    assert [row["config/optimizer/lr"] for row in rows] == [0.5, 0.5, 0.5]
    assert all("config/rows" not in row for row in rows)  # an object that is gone
    assert [row["error"] for row in rows] == [None, "ValueError: too much", None]
    chosen = ["--metric", "config/x", "--mode", "min", "--json"]
    assert [row["loss"] for row in json.loads(said(capsys, "show", path, *chosen))] == [1, 2, 3]
    assert "ValueError: too much" in said(capsys, "show", path)


def test_a_metric_that_nobody_reports(
    experiments: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["tune", "show", str(experiments / "first"), "--metric", "los"])
    assert ended.value.code == 1
    assert "no trial" in capsys.readouterr().err

    with pytest.raises(SystemExit):
        main(["tune", "plot", str(experiments / "first"), "los"])
    assert "there is loss" in capsys.readouterr().err


def as_ray_lists(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        main(["ray", "tune", *arguments])
    assert not ended.value.code
    return capsys.readouterr().out.splitlines()


def test_trials_as_the_command_of_ray_lists_them(
    experiments: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(experiments / "first")
    _, header, *_ = as_ray_lists(capsys, "ls", path)
    assert all(name in header for name in ("trial_id", "training_iteration", "config/x"))
    table = tmp_path / "trials.csv"
    chosen = ["--columns", "loss,config/x", "--sort", "loss", "--desc", "True", "--limit", "2"]
    _, header, _, *rows, _, note = as_ray_lists(capsys, "ls", path, *chosen, "-o", str(table))
    assert [word.strip() for word in header.split("|")] == ["", "loss", "config/x", ""]
    assert [row.split("|")[1].strip() for row in rows] == ["3", "2"]
    assert str(table) in note
    assert table.read_text().splitlines() == ["loss,config/x", "3,3", "2,2"]
    few = as_ray_lists(capsys, "list-trials", path, "--columns", "loss", "--filter", "loss < 3")
    assert len(few) == 3 + 2 + 1
    none = as_ray_lists(capsys, "ls", path, "--columns", "loss", "--filter", "loss > 9")
    assert len(none) == 3 + 1


def test_experiments_as_the_command_of_ray_lists_them(
    experiments: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, header, _, row, _ = as_ray_lists(capsys, "lsx", str(experiments))
    assert [word.strip() for word in header.split("|")] == ["", "name", "total_trials", ""]
    assert [word.strip() for word in row.split("|")] == ["", "first", "3", ""]


def test_a_note_is_written_in_the_editor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "cp /dev/null")
    (said_of_it,) = as_ray_lists(capsys, "add-note", str(tmp_path), "--filename", "n.txt")
    assert said_of_it.endswith(str(tmp_path / "n.txt"))
    assert (tmp_path / "n.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["first", "--columns", "asdf"], "loss"),
        (["first", "--columns", "loss", "--sort", "trial_id"], "trial_id"),
        (["first", "--columns", "loss", "--filter", "loss<3"], "loss<3"),
        (["first", "--columns", "loss", "--filter", "loss ~ 3"], "loss ~ 3"),
        (["first", "--columns", "loss", "--filter", "loss < few"], "few"),
        (["first", "-o", "trials.doc"], ".csv"),
        (["nowhere"], "nowhere"),
    ],
)
def test_mistakes_in_lists_of_trials(
    arguments: list[str], says: str, experiments: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, *options = arguments
    with pytest.raises(SystemExit) as ended:
        main(["ray", "tune", "ls", str(experiments / path), *options])
    assert ended.value.code == 1
    assert says in capsys.readouterr().err


def test_a_picture(experiments: Path, tmp_path: Path) -> None:
    picture = tmp_path / "loss.png"  # by a process of its own: matplotlib keeps fonts open
    command = [sys.executable, "-m", "skate", "tune", "plot", str(experiments / "first")]
    assert run_program([*command, "-o", str(picture)]).stdout == f"{picture}\n"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_others_wrote_neither_hides_nor_hangs_anything(
    experiments: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(experiments / "first", tmp_path / "damaged")
    shutil.copytree(experiments / "first", tmp_path / "pipe")
    state = tmp_path / "damaged" / "experiment_state.jsonl"
    odd: list[dict[str, Any]] = [
        {"kind": "trial"},
        {"kind": "trial", "trial_id": []},
        {"kind": "progress", "trial_id": {}},
        {"kind": "config", "trial_id": json.loads(state.read_text().splitlines()[1])["trial_id"]},
    ]
    with state.open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in odd)
    pipe = tmp_path / "pipe" / "experiment_state.jsonl"
    pipe.unlink()
    os.mkfifo(pipe)
    rows = {
        row["experiment"]: row for row in json.loads(said(capsys, "ls", str(tmp_path), "--json"))
    }
    assert rows["damaged"]["states"] == "1 ERROR, 2 TERMINATED"
    assert (rows["pipe"]["trials"], str(pipe) in rows["pipe"]["states"]) == (None, True)


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
def test_an_error_that_is_no_file_hides_no_trial(
    experiments: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    shutil.copytree(experiments / "first", tmp_path / "first")
    (error,) = (tmp_path / "first").glob("*/error.txt")
    error.unlink()
    match kind:
        case "pipe":
            os.mkfifo(error)
        case "folder":
            error.mkdir()
        case _:
            error.symlink_to("/dev/zero")
    rows = json.loads(said(capsys, "show", str(tmp_path / "first"), "--json"))
    assert [row["state"] for row in rows].count("TERMINATED") == 2
    assert [str(error) in (row["error"] or "") for row in rows].count(True) == 1


def test_names_of_others_tell_the_terminal_nothing(
    experiments: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(experiments / "first", tmp_path / "first")
    state = tmp_path / "first" / "experiment_state.jsonl"
    (known,) = {json.loads(line)["trial_id"] for line in state.read_text().splitlines()[1:2]}
    state.write_text(state.read_text().replace(known, "\\u001b]0;mine\\u0007\\u202e"))
    shown = said(capsys, "show", str(tmp_path / "first"))
    assert "\\x1b]0;mine\\x07\\u202e" in shown
    assert all(line.isprintable() for line in shown.splitlines())
