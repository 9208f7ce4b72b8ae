"""Folders of trainings and searches: read as data, while they grow and later."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from skate.dashboard.folder_source import FolderSource
from skate.dashboard.run_folders import RunFolder, find_runs


class Bomb:
    def __reduce__(self) -> Any:
        return pytest.fail, ("something was unpickled",)


def lines(path: Path, *rows: object) -> None:
    with path.open("a") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def result(step: int, **metrics: object) -> dict[str, object]:
    return {"training_iteration": step, "time_total_s": 1.0, "config": {"lr": 1}, **metrics}


def training(folder: Path, *rows: dict[str, object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines(folder / "result.json", *rows)
    for name in ("params.pkl", "trainer.pkl", "error.pkl"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
    return folder


def search(folder: Path, count: int = 3) -> Path:
    folder.mkdir()
    state = folder / "experiment_state.jsonl"
    lines(state, {"kind": "run", "fresh": True, "metric": "loss", "mode": "min"})
    for one in range(count):
        config = {"json": {"lr": 0.1 * one, "deep": {"width": one}}}
        record = {"kind": "trial", "trial_id": f"t{one}", "dirname": f"f_{one}", "config": config}
        lines(state, record)
        training(folder / f"f_{one}", *(result(n, loss=one + 1 / n) for n in range(1, 4)))
    return folder


def told(run: RunFolder, metric: str | None = None) -> dict[str, Any]:
    run.read()
    return run.told(metric)


def test_a_training(tmp_path: Path) -> None:
    run = RunFolder(str(training(tmp_path / "run", result(1, loss=2.0, note="x"))))
    (row,) = told(run)["trials"]
    assert row["config"] == {"lr": 1}
    assert row["metrics"] == {"loss": 2.0, "note": "x", "training_iteration": 1}
    assert row["curve"] == [[1, 2.0]]
    assert (run.kind, row["error"], row["state"]) == ("training", "", "")


def test_what_comes_later(tmp_path: Path) -> None:
    folder = training(tmp_path / "run", result(1, loss=2.0))
    run = RunFolder(str(folder))
    version = told(run)["version"]
    assert told(run)["version"] == version
    with (folder / "result.json").open("a") as file:
        file.write('{"training_iteration": 2, "loss"')  # half of a line
    assert told(run)["version"] == version
    with (folder / "result.json").open("a") as file:
        file.write(": 1.0}\n")
    after = told(run)
    assert after["version"] > version
    assert after["trials"][0]["curve"] == [[1, 2.0], [2, 1.0]]


def test_a_configuration_that_is_being_written(tmp_path: Path) -> None:
    folder = training(tmp_path / "run")
    (folder / "params.json").write_text('{"lr": ')
    run = RunFolder(str(folder))
    (row,) = told(run)["trials"]
    version = run.version
    assert row["config"] == {}
    (folder / "params.json").write_text('{"lr": 3}')
    (row,) = told(run)["trials"]
    assert row["config"] == {"lr": 3}
    assert run.version > version
    assert told(run)["version"] == run.version


def test_a_run_that_begins_anew(tmp_path: Path) -> None:
    folder = training(tmp_path / "run", *(result(n, loss=n) for n in range(1, 9)))
    run = RunFolder(str(folder))
    told(run)
    (folder / "result.json").write_text(json.dumps(result(1, loss=5.0)) + "\n")
    assert told(run)["trials"][0]["curve"] == [[1, 5.0]]


def test_long_curves_are_thinned(tmp_path: Path) -> None:
    folder = training(tmp_path / "run", *(result(n, loss=n) for n in range(1, 5001)))
    curve = told(RunFolder(str(folder)))["trials"][0]["curve"]
    assert 200 < len(curve) < 600
    assert curve[-1] == [5000, 5000]
    assert curve == sorted(curve)


def test_a_search(tmp_path: Path) -> None:
    folder = search(tmp_path / "search")
    state = folder / "experiment_state.jsonl"
    lines(state, {"kind": "progress", "trial_id": "t1", "status": "ERROR"})
    described = {"type": "ValueError", "message": "odd", "traceback": "Traceback\nValueError: odd"}
    (folder / "f_1" / "error.json").write_text(json.dumps(described))
    run = RunFolder(str(folder))
    found = told(run)
    assert (found["kind"], found["metric"], found["mode"]) == ("search", "loss", "min")
    assert [row["trial"] for row in found["trials"]] == ["t0", "t1", "t2"]
    assert [row["state"] for row in found["trials"]] == ["PENDING", "ERROR", "PENDING"]
    assert found["trials"][1]["error"] == described["traceback"]
    assert found["trials"][2]["config"] == {"lr": 0.2, "deep/width": 2}
    assert found["trials"][2]["curve"] == [[1, 3.0], [2, 2.5], [3, pytest.approx(2.333, abs=1e-3)]]
    lines(
        state, {"kind": "config", "trial_id": "t0", "config": {"pickle": "x", "shown": {"a": 1}}}
    )
    assert told(run)["trials"][0]["config"] == {"a": 1}
    lines(state, {"kind": "run", "fresh": True})
    assert told(run)["trials"] == []


def test_a_search_by_ray(tmp_path: Path) -> None:
    folder = search(tmp_path / "search")
    (folder / "experiment_state.jsonl").rename(folder / "experiment_state-2026.json")
    for one in range(3):
        (folder / f"f_{one}" / "params.json").write_text(json.dumps({"lr": one}))
    (folder / "f_2" / "error.txt").write_text("Traceback\nValueError: odd")
    found = told(RunFolder(str(folder)))
    assert [row["config"] for row in found["trials"]] == [{"lr": 0}, {"lr": 1}, {"lr": 2}]
    assert found["trials"][2]["state"] == "ERROR"


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b"{", b"7", b"null", b"\xff\xfe", b'"x"', b'{"training_iteration": "x"}'],
    ids=lambda line: str(line[:8]),
)
def test_damaged_lines_are_passed_over(tmp_path: Path, line: bytes) -> None:
    folder = training(tmp_path / "run")
    good = json.dumps(result(1, loss=1.0)).encode()
    (folder / "result.json").write_bytes(line + b"\n" + good + b"\n")
    assert told(RunFolder(str(folder)))["trials"][0]["curve"] == [[1, 1.0]]


def test_no_other_folder_is_read(tmp_path: Path) -> None:
    training(tmp_path / "outside", result(1, loss=1.0))
    folder = search(tmp_path / "search", 0)
    for name in ("../outside", str(tmp_path / "outside"), "..", ""):
        config = {"kind": "trial", "trial_id": name, "dirname": name, "config": {"json": {}}}
        lines(folder / "experiment_state.jsonl", config)
    inside = folder / "inside"
    inside.mkdir()
    (inside / "result.json").symlink_to(tmp_path / "outside" / "result.json")
    os.mkfifo(inside / "error.txt")
    record = {"kind": "trial", "trial_id": "in", "dirname": "inside", "config": {"json": {}}}
    lines(folder / "experiment_state.jsonl", record)
    found = told(RunFolder(str(folder)))["trials"]
    assert len(found) == 5
    assert not any(row["curve"] or row["error"] for row in found)


def test_runs_below_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"experiment_state\.jsonl"):
        find_runs(str(tmp_path))
    search(tmp_path / "one")
    training(tmp_path / "two" / "three", result(1, loss=1.0))
    assert {run.name for run in find_runs(str(tmp_path))} == {"one", "three"}
    assert [run.name for run in find_runs(str(tmp_path / "one"))] == ["one"]
    source = FolderSource(str(tmp_path))
    rows = source.libraries()["runs"]
    assert sorted(row["name"] for row in rows) == ["one", "three"]
    assert source.runs.told(rows[0]["number"], None, -1)["trials"]
    with pytest.raises(LookupError):
        source.runs.told(2, None, -1)


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "config", "trial_id": []},
        {"kind": "progress", "trial_id": {}},
        {"kind": [], "trial_id": 1},
        {"kind": "trial", "trial_id": "odd", "dirname": "\0"},
        {"kind": "trial", "trial_id": "odd", "dirname": "\ud800"},
        {"kind": "trial", "trial_id": "odd", "dirname": ["x"], "config": [1]},
    ],
    ids=str,
)
def test_a_line_of_another_kind_hides_no_trial(tmp_path: Path, line: dict[str, Any]) -> None:
    folder = search(tmp_path / "search", 1)
    lines(folder / "experiment_state.jsonl", line)
    shown = told(RunFolder(str(folder)))["trials"]
    assert [(row["trial"], row["metrics"].get("loss")) for row in shown][:1] == [("t0", 1 / 3)]
