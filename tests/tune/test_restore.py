"""A program is killed, and another takes up its search."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skate import tune
from skate._run.checkpoint_manager import RecordedCheckpoint
from skate._run.pickles import signed_pickle
from skate._run.storage import Storage
from skate.tune import running
from skate.tune.execution import resume
from skate.tune.experiment import Trial
from skate.tune.experiment.state_file import STATE_FILE, StateLog, trials_of
from skate.tune.schedulers import ASHAScheduler, ResourceChangingScheduler
from tests.support import Program

PROGRAM = """
import os, sys
import skate
from skate import tune

folder = sys.argv[1]

def objective(config):
    start, checkpoint = 0, tune.get_checkpoint()
    if checkpoint:
        start = checkpoint.to_dict()["step"] + 1
    with open(os.path.join(folder, "begun"), "a") as file:
        file.write(f"{config['x']} {start}\\n")
    for step in range(start, 4):
        checkpoint = tune.Checkpoint.from_dict({"step": step})
        tune.report({"loss": (config["x"] - 7) ** 2 + 1 / (step + 1)}, checkpoint=checkpoint)

skate.init(num_cpus=2)
if sys.argv[2] == "new":
    tuner = tune.Tuner(
        objective,
        param_space={"x": tune.grid_search(list(range(12)))},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(
            storage_path=folder, name="search",
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
        ),
    )
else:
    tuner = tune.Tuner.restore(os.path.join(folder, "search"), trainable=objective)
grid = tuner.fit()
assert len(grid) == 12 and grid.num_terminated == 12, grid
best = grid.get_best_result()
print(best.config["x"], best.metrics["loss"], best.metrics["training_iteration"])
"""


def program(folder: Path, kind: str) -> Program:
    command = [sys.executable, "-c", PROGRAM, str(folder), kind]
    return Program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def begun(folder: Path) -> list[str]:
    place = folder / "begun"
    return place.read_text().splitlines() if place.exists() else []


def finished(folder: Path) -> set[int]:
    trials = trials_of(Storage.at(folder / "search"))
    return {trial.config["x"] for trial in trials if trial.is_finished()}


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_a_random_moment(tmp_path: Path, seed: int) -> None:
    wanted = random.Random(seed).randint(1, 11)
    first = program(tmp_path, "new")
    deadline = time.monotonic() + 60
    while len(begun(tmp_path)) < wanted and first.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    done_before, begun_before = finished(tmp_path), len(begun(tmp_path))

    second = program(tmp_path, "restored")
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert out == f"7 {1 / 4} 4\n"
    again = {int(line.split()[0]) for line in begun(tmp_path)[begun_before:]}
    assert not again & done_before
    assert again | done_before == set(range(12))
    for place in (tmp_path / "search").glob("*/result.json"):
        rows = [json.loads(line) for line in place.read_text().splitlines()]
        assert [row["training_iteration"] for row in rows] == [1, 2, 3, 4]


class Books(tune.Callback):
    """Which checkpoints the state of the experiment knows, and which results are on record, when
    callbacks are told."""

    def __init__(self) -> None:
        self.at_results: list[tuple[int, int]] = []
        self.at_checkpoints: list[tuple[int, int]] = []

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.at_results.append(self._counts(trial))

    def on_checkpoint(self, iteration, trials, trial, checkpoint, **info):
        self.at_checkpoints.append(self._counts(trial))

    def _counts(self, trial):
        state = Path(trial.path).parent / STATE_FILE
        results = Path(trial.path) / "result.json"
        recorded = results.read_text().count("\n") if results.exists() else 0
        return state.read_text().count('"kind": "checkpoint"'), recorded


def test_a_checkpoint_counts_after_its_result(run):
    def saving(config):
        for step in range(3):
            tune.report({"loss": 1}, checkpoint=tune.Checkpoint.from_dict({"step": step}))

    books = Books()
    run(saving, callbacks=[books])
    assert [known for known, _ in books.at_results] == [0, 1, 2]
    assert books.at_checkpoints == [(1, 1), (2, 2), (3, 3)]


def test_a_state_file_cut_at_every_byte_is_read(tmp_path: Path) -> None:
    storage = Storage(tmp_path, "search")
    _write_state(storage, trials=3)
    whole = storage.read(STATE_FILE)
    counts = []
    for cut in range(len(whole) + 1):
        storage.write(STATE_FILE, whole[:cut])
        trials = trials_of(storage)
        counts.append(len(trials))
        assert all(trial.config["x"] == number for number, trial in enumerate(trials))
    assert counts == sorted(counts)
    assert counts[-1] == 3


def test_after_a_cut_lines_are_added_behind_the_last_whole_one(tmp_path: Path) -> None:
    storage = Storage(tmp_path, "search")
    _write_state(storage, trials=2)
    whole = storage.read(STATE_FILE)
    storage.write(STATE_FILE, whole[:-5])
    _write_state(Storage(tmp_path, "search"), trials=3, first=2)
    assert [trial.config["x"] for trial in trials_of(storage)] == [0, 1, 2]


@pytest.mark.parametrize("number", ["1e999", "NaN", '"many"', "null", "[]"])
def test_a_line_that_is_not_as_it_is_written_hides_no_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    storage = Storage(tmp_path, "search")
    _write_state(storage, trials=2)
    line = {"kind": "progress", **trials_of(storage)[0].progress(), "num_failures": "?"}
    whole = storage.read(STATE_FILE)
    storage.write(STATE_FILE, whole + json.dumps(line).replace('"?"', number).encode() + b"\n")
    assert [trial.config["x"] for trial in trials_of(storage)] == [0, 1]
    assert f"1 lines of {storage.path}/{STATE_FILE}" in capsys.readouterr().err


def _write_state(storage: Storage, trials: int, first: int = 0) -> None:
    from skate.tune.experiment import Trial
    from skate.tune.experiment.state_file import StateLog

    log = StateLog(storage)
    for number in range(first, trials):
        trial = Trial(
            "f", trial_id=f"t{number}", config={"x": number, "s": {1, 2}}, storage=storage
        )
        log.trials([trial])
        trial.update_last_result({"loss": number * 1.5})
        place = trial.storage.persist(tune.Checkpoint.from_dict({"a": 1}), "checkpoint_000000")
        log.checkpoint(trial, RecordedCheckpoint(place, trial.last_result))
        trial.set_status(Trial.TERMINATED)
        log.progress(trial)


def test_trials_that_were_killed_are_shown_with_their_last_results(tmp_path: Path) -> None:
    storage = Storage(tmp_path, "search")
    log = StateLog(storage)
    trials = [Trial("f", trial_id=f"t{n}", config={"x": n}, storage=storage) for n in range(3)]
    for trial in trials:
        log.trials([trial])
    for step in (1, 2, 3):
        trials[0].storage.append("result.json", {"loss": 5 - step, "training_iteration": step})
    trials[1].storage.append("result.json", {"loss": 7, "training_iteration": 1})
    trials[1].storage.append("result.json", {"loss": 1, "training_iteration": 2})
    file = tmp_path / "search" / trials[1].dirname / "result.json"
    file.write_bytes(file.read_bytes()[:-3])
    analysis = tune.ExperimentAnalysis(storage, default_metric="loss", default_mode="min")
    assert [trial.status for trial in analysis.trials] == ["RUNNING", "RUNNING", "PENDING"]
    assert analysis.best_trial.trial_id == "t0"
    assert analysis.best_trial.metric_analysis["loss"]["max"] == 4
    assert analysis.dataframe()["loss"].tolist() == [2, 7]


def quick(config):
    for step in range(3):
        tune.report({"loss": config["x"] + step})


def failing(config):
    tune.report({"loss": config["x"]}, checkpoint=tune.Checkpoint.from_dict({"n": 1}))
    if config["x"] == 1 and not os.path.exists(config["flag"]):
        raise ValueError("not yet")
    tune.report({"loss": -1, "resumed": tune.get_checkpoint() is not None})


def counting(config):
    checkpoint = tune.get_checkpoint()
    start = checkpoint.to_dict()["next"] if checkpoint else 0
    for n in range(start, 4):
        if n == 2 and not os.path.exists(config["flag"]):
            raise ValueError("not yet")
        saved = tune.Checkpoint.from_dict({"next": n + 1})
        tune.report({"n": n, "began_at": start}, checkpoint=saved)


class TestRestore:
    @pytest.fixture
    def tuner(self, session, tmp_path):
        def make(trainable=quick, **space):
            return tune.Tuner(
                trainable,
                param_space={"x": tune.grid_search([0, 1, 2]), **space},
                tune_config=tune.TuneConfig(metric="loss", mode="min"),
                run_config=tune.RunConfig(storage_path=tmp_path, name="search"),
            )

        return make

    def test_a_finished_search_is_read_not_run(self, tuner, tmp_path):
        before = tuner().fit()
        restored = tune.Tuner.restore(tmp_path / "search", trainable=quick)
        grid = restored.get_results()
        assert [r.config for r in grid] == [r.config for r in before]
        assert [r.metrics["loss"] for r in restored.fit()] == [2, 3, 4]
        assert len(grid[0].metrics_dataframe) == 3

    def test_a_search_that_has_not_begun(self, tuner, tmp_path):
        tuner()
        assert tune.Tuner.can_restore(tmp_path / "search")
        assert not tune.Tuner.can_restore(tmp_path / "another")
        restored = tune.Tuner.restore(tmp_path / "search", trainable=quick)
        with pytest.raises(RuntimeError, match="no results yet"):
            restored.get_results()
        assert [r.metrics["loss"] for r in restored.fit()] == [2, 3, 4]

    def test_a_moved_folder(self, tuner, tmp_path):
        tuner().fit()
        (tmp_path / "elsewhere").mkdir()
        moved = (tmp_path / "search").rename(tmp_path / "elsewhere" / "other")
        tune.Tuner.restore(str(moved), trainable=quick)
        assert not (tmp_path / "search").exists()
        grid = tune.Tuner.restore(str(moved), trainable=quick).fit()
        assert grid.experiment_path == str(moved)
        assert all(result.path.startswith(str(moved)) for result in grid)

    @pytest.mark.parametrize(
        ("how", "errors", "iterations"),
        [
            ({}, 1, [1]),
            ({"resume_errored": True}, 0, [1, 2, 3]),
            ({"restart_errored": True}, 0, [1, 2]),
        ],
    )
    def test_failed_trials(self, tuner, tmp_path, how, errors, iterations):
        flag = str(tmp_path / "flag")
        assert tuner(failing, flag=flag).fit().num_errors == 1
        Path(flag).touch()
        grid = tune.Tuner.restore(tmp_path / "search", trainable=failing, **how).fit()
        assert grid.num_errors == errors
        assert len(grid) == 3
        assert grid[1].metrics_dataframe["training_iteration"].tolist() == iterations

    def test_what_cannot_be_restored(self, session, tmp_path):
        assert not tune.Tuner.can_restore(tmp_path)
        with pytest.raises(ValueError, match="no tuner to restore"):
            tune.Tuner.restore(tmp_path, trainable=quick)
        with pytest.raises(tune.TuneError, match="AUTO"):
            tune.run(quick, config={"x": 1}, storage_path=tmp_path, name="none", resume=True)

    def test_run_again_with_resume(self, run):
        first = run(quick, config={"x": tune.grid_search([1, 2])}, resume="AUTO")
        second = run(quick, config={"x": tune.grid_search([1, 2, 3])}, resume=True)
        ids = [trial.trial_id for trial in second.trials]
        assert ids[:2] == [trial.trial_id for trial in first.trials]
        assert len(ids) == 3

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_a_scheduler_knows_what_earlier_trials_came_to(self, run, wrapped):
        def worse_and_worse(config):
            for _ in range(4):
                tune.report(loss=config["x"])

        def search(trials, **options):
            asha = ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2)
            scheduler = ResourceChangingScheduler(asha) if wrapped else asha
            analysis = run(
                worse_and_worse, config={"x": tune.grid_search(list(range(trials)))},
                metric="loss", mode="min", scheduler=scheduler, max_concurrent_trials=1,
                **options,
            )  # fmt: skip
            return [trial.last_result["training_iteration"] for trial in analysis.trials]

        assert search(2) == [4, 1]
        assert search(4, resume=True) == [4, 1, 1, 1]

    @pytest.mark.parametrize(
        ("resume", "began_at"),
        [
            ("AUTO", 0),
            ("AUTO+ERRORED", 2),
            ("AUTO+ERRORED_ONLY", 2),
            ("AUTO+RESTART_ERRORED", 0),
            ("AUTO+RESTART_ERRORED_ONLY", 0),
        ],
    )
    def test_the_words_for_failed_trials(self, run, tmp_path, resume, began_at):
        space = {"flag": str(tmp_path / "flag")}
        (failed,) = run(counting, config=space, raise_on_failed_trial=False).trials
        Path(space["flag"]).touch()
        left = {"raise_on_failed_trial": False}
        (trial,) = run(counting, config=space, resume=resume, **left).trials
        assert trial.trial_id == failed.trial_id
        assert trial.status == ("ERROR" if resume == "AUTO" else "TERMINATED")
        assert trial.last_result["began_at"] == began_at
        assert trial.last_result["n"] == (1 if resume == "AUTO" else 3)

    @pytest.mark.parametrize(
        ("resume", "unfinished", "errored"),
        [
            (True, "resume", "skip"),
            ("auto", "resume", "skip"),
            ("LOCAL", "resume", "skip"),
            ("AUTO+ERRORED", "resume", "resume"),
            ("AUTO+ERRORED_ONLY", "skip", "resume"),
            ("AUTO+RESTART_ERRORED", "resume", "restart"),
            ("AUTO+RESTART_ERRORED_ONLY", "skip", "restart"),
            ("ERRORED_ONLY", "skip", "restart"),
        ],
    )
    def test_the_words_of_resume(self, resume, unfinished, errored):
        expected = tune.ResumeConfig(unfinished=unfinished, errored=errored)
        assert running._resume(resume) == expected

    def test_a_name_without_a_date(self, run, monkeypatch, tmp_path):
        monkeypatch.setenv("TUNE_DISABLE_DATED_SUBDIR", "1")
        first = run(quick, config={"x": 1}, name=None)
        assert first.experiment_path == str(tmp_path / "runs" / "quick")
        again = run(quick, config={"x": 1}, name=None, resume=True)
        assert [t.trial_id for t in again.trials] == [t.trial_id for t in first.trials]

    def test_the_latest_of_a_trainable_is_not_one_of_its_namesakes(self, run):
        def quick_and_wide(config):
            tune.report(loss=0)

        first = run(quick, config={"x": 1}, name=None)
        run(quick_and_wide, config={"y": 1}, name=None)
        again = run(quick, config={"x": 1}, name=None, resume="AUTO")
        assert again.experiment_path == first.experiment_path

    def test_the_experiment_of_another_trainable_is_refused(self, run):
        run(quick, config={"x": 1})
        with pytest.raises(ValueError, match="one of 'quick', and cannot go on with 'failing'"):
            run(failing, config={"x": 1}, resume=True)

    def test_a_new_search_of_the_same_name_is_a_new_one(self, run):
        run(quick, config={"x": tune.grid_search([1, 2])})
        second = run(quick, config={"x": 5})
        stored = tune.ExperimentAnalysis(second.experiment_path)
        assert [trial.config for trial in stored.trials] == [{"x": 5}]

    def test_what_a_former_search_of_the_same_name_ran_does_not_matter(self, run):
        run(failing, config={"x": 2})
        second = run(quick, config={"x": 5})
        again = run(quick, config={"x": 5}, resume=True)
        assert [t.trial_id for t in again.trials] == [t.trial_id for t in second.trials]

    def test_a_searcher_goes_on_where_it_was(self, session, tmp_path):
        from skate.tune.search.optuna import OptunaSearch

        def search(samples, resume):
            return tune.run(
                quick, config={"x": tune.uniform(0, 1)}, num_samples=samples, metric="loss",
                mode="min", search_alg=(searcher := OptunaSearch(seed=1)), name="search",
                storage_path=tmp_path, resume=resume,
            ), searcher  # fmt: skip

        search(3, None)
        analysis, searcher = search(5, True)
        assert len(analysis.trials) == 5
        assert len(searcher._ot_study.trials) == 5


def searching(filesystem, samples, resume, **options):
    """The configurations of a search that learns, in one go or in two."""
    from skate.tune.search.optuna import OptunaSearch

    analysis = tune.run(
        quick, config={"x": tune.uniform(0, 1)}, num_samples=samples, metric="loss", mode="min",
        search_alg=OptunaSearch(seed=1), max_concurrent_trials=1, storage_filesystem=filesystem,
        storage_path="experiments", resume=resume, verbose=0, **options,
    )  # fmt: skip
    return [trial.config["x"] for trial in analysis.trials]


def test_a_searcher_goes_on_from_another_file_system(session):
    import fsspec

    filesystem = fsspec.filesystem("memory")
    whole = searching(filesystem, 4, None, name="whole")
    searching(filesystem, 2, None, name="parts")
    assert searching(filesystem, 4, True, name="parts") == whole
    filesystem.rm("experiments", recursive=True)


def test_skipped_trials_leave_their_place_to_others(session, tmp_path):
    from skate.tune.search.optuna import OptunaSearch

    options = {
        "config": {"x": tune.uniform(0, 1)}, "metric": "loss", "mode": "min", "verbose": 0,
        "max_concurrent_trials": 1, "storage_path": tmp_path, "name": "search",
    }  # fmt: skip
    tune.run(quick, num_samples=1, search_alg=OptunaSearch(seed=1), **options)
    state = tmp_path / "search" / "experiment_state.jsonl"
    lines = state.read_text().splitlines(keepends=True)
    state.write_text("".join(line for line in lines if '"progress"' not in line))
    for saved in (tmp_path / "search").glob("search_gen_state*"):
        content = pickle.loads(saved.read_bytes())
        trial_id = json.loads(lines[1])["trial_id"]
        content["wrappers"][0].update(live_trials={trial_id}, num_unfinished_live_trials=1)
        saved.write_bytes(signed_pickle(content))
    skipping = tune.ResumeConfig(unfinished="skip")
    analysis = tune.run(
        quick, num_samples=2, search_alg=OptunaSearch(seed=1), resume_config=skipping, **options
    )
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"] * 2


def test_a_trial_that_begins_anew_is_unfinished_again(session, tmp_path):
    run = tune.Tuner(
        failing, param_space={"x": 1, "flag": str(tmp_path / "flag")},
        run_config=tune.RunConfig(storage_path=tmp_path, name="search"),
    ).fit()  # fmt: skip
    assert run.num_errors == 1
    storage = Storage(tmp_path, "search")
    (trial,) = trials_of(storage)
    resume._prepare(trial, tune.ResumeConfig(errored="restart"), StateLog(storage))
    (again,) = trials_of(storage)  # as after a kill at this moment
    assert again.status == Trial.PENDING
    assert again.last_result == {}


def test_what_is_known_is_uploaded_without_waiting_for_the_next_event(monkeypatch):
    import fsspec

    filesystem = fsspec.filesystem("memory")
    storage = Storage("experiments", "search", filesystem)
    log = StateLog(storage)
    monkeypatch.setattr("skate.tune.experiment.state_file._UPLOAD_EVERY_SECONDS", 1000)
    for name in ("a", "b"):
        log.trials([Trial("f", trial_id=name, storage=storage)])
    assert [trial.trial_id for trial in trials_of(storage)] == ["a"]  # not twice in that time
    monkeypatch.setattr("skate.tune.experiment.state_file._UPLOAD_EVERY_SECONDS", 0)
    log.flush_if_due()
    assert [trial.trial_id for trial in trials_of(storage)] == ["a", "b"]
    filesystem.rm("experiments", recursive=True)


def test_memory_as_storage(session):
    """Any file system of fsspec's: this one is in this process."""
    import fsspec

    filesystem = fsspec.filesystem("memory")
    analysis = tune.run(
        quick, config={"x": tune.grid_search([1, 2])}, storage_path="experiments",
        storage_filesystem=filesystem, name="search", verbose=0,
    )  # fmt: skip
    assert len(analysis.trials) == 2
    again = tune.ExperimentAnalysis("experiments/search", storage_filesystem=filesystem)
    assert sorted(trial.last_result["loss"] for trial in again.trials) == [3, 4]
    assert all(len(frame) == 3 for frame in again.trial_dataframes.values())
    filesystem.rm("experiments", recursive=True)


def test_there_is_nothing_to_restore(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no tuner to restore at .*tuner\.pkl") as caught:
        tune.Tuner.restore(str(tmp_path / "nothing"))
    assert isinstance(caught.value, ValueError)
    assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


def test_a_tuner_does_not_restore_itself(tmp_path):
    with pytest.raises(AttributeError, match=r"Tuner\.restore\(path"):
        tune.Tuner(quick).restore(str(tmp_path))
    assert not hasattr(tune.Tuner(quick), "restore")


def test_a_trainable_that_cannot_travel_is_refused_at_once():
    import threading

    lock = threading.Lock()

    def locked(config):
        return lock

    with pytest.raises(
        TypeError, match=r"non-serializable: [Cc]ould not serialize .*lock: _thread\.lock"
    ):
        tune.Tuner(locked)


class Counted:
    """Counts how often it is pickled."""

    times = 0

    def __reduce__(self) -> Any:
        Counted.times += 1
        return Counted, ()


def test_a_trainable_is_pickled_only_where_that_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(Counted, "times", 0)
    held = Counted()

    def trainable(config: Any) -> None:
        assert held

    settings = tune.RunConfig(name="search", storage_path=str(tmp_path))
    tune.Tuner(trainable, run_config=settings)
    assert Counted.times == 1  # which shows that it can be, and is written
    tune.Tuner.restore(str(tmp_path / "search"))
    assert Counted.times == 1
    tune.Tuner.restore(str(tmp_path / "search"), trainable=trainable)
    assert Counted.times == 2
