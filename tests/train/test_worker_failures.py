"""Workers that raise, die and hang; a driver that is killed."""

from __future__ import annotations

import csv
import io
import os
import pickle
import re
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

import skate
from skate import train
from skate.exceptions import OutOfMemoryError
from skate.train import (
    Backend,
    BackendConfig,
    Checkpoint,
    DataParallelTrainer,
    FailureConfig,
    WorkerGroupError,
)
from tests.support import PATIENCE, Program, eventually, reasons_for_waits


def fit(loop, run_config, **settings):
    return DataParallelTrainer(
        loop, scaling_config={"num_workers": 2}, run_config=run_config, **settings
    ).fit()


def epochs(total):
    """The epochs that are left, from the last checkpoint on."""
    before = train.get_checkpoint()
    return range(before.to_dict()["epoch"] + 1 if before else 0, total)


def report(epoch):
    train.report({"epoch": epoch}, checkpoint=Checkpoint.from_dict({"epoch": epoch}))


def die(how):
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "crashed":
        os._exit(3)
    elif how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    raise ValueError("raised")


@pytest.mark.parametrize("how", ["killed", "crashed", "raised"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_is_lost_in_the_middle(run_config, tally, how, rank):
    def loop():
        for epoch in epochs(4):
            if epoch == 2 and train.world_rank() == rank and len(tally) == 0:
                tally.add()
                die(how)
            report(epoch)

    result = fit(loop, run_config(failure_config=FailureConfig(max_failures=1)))
    assert list(result.metrics_dataframe["epoch"]) == [0, 1, 2, 3]
    assert list(result.metrics_dataframe["training_iteration"]) == [1, 2, 3, 4]
    assert result.checkpoint.to_dict() == {"epoch": 3}


def test_what_is_done_again_is_in_the_history_once(run_config, tally):
    def loop():
        for epoch in epochs(6):
            if epoch == 4 and train.world_rank() == 1 and tally.add() == 1:
                die("killed")
            checkpoint = Checkpoint.from_dict({"epoch": epoch}) if epoch == 1 else None
            train.report({"epoch": epoch}, checkpoint=checkpoint)

    result = fit(loop, run_config(failure_config=FailureConfig(max_failures=1)))
    assert len(tally) == 2
    assert list(result.metrics_dataframe["epoch"]) == list(range(6))
    with open(Path(result.path, "progress.csv"), newline="") as file:
        rows = [(row["epoch"], row["training_iteration"]) for row in csv.DictReader(file)]
    assert rows == [(str(epoch), str(epoch + 1)) for epoch in range(6)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_that_calls_exit(run_config, workers):
    def loop(config):
        train.report(step=0)
        if train.world_rank() == config["rank"]:
            sys.exit(config["code"])
        train.report(step=1)

    def exiting(rank, code):
        DataParallelTrainer(
            loop,
            train_loop_config={"rank": rank, "code": code},
            scaling_config={"num_workers": workers},
            run_config=run_config(),
        ).fit()

    last = max(workers - 1, 0)
    with pytest.raises(WorkerGroupError, match=rf"(?s)rank {last}: .*sys\.exit\(3\)") as caught:
        exiting(last, 3)
    assert list(caught.value.worker_failures) == [last]
    assert caught.value.__cause__.code == 3
    exiting(None, 0)


def test_a_worker_that_hangs(run_config, tally, monkeypatch):
    monkeypatch.setenv("SKATE_TRAIN_HUNG_AFTER", "0.5")

    def loop():
        for epoch in epochs(2):
            if epoch == 1 and train.world_rank() == 1 and len(tally) == 0:
                tally.add()
                die("stopped")
            report(epoch)

    always = FailureConfig(max_failures=-1)  # on a busy machine others may seem to hang as well
    result = fit(loop, run_config(failure_config=always))
    assert list(result.metrics_dataframe["epoch"]) == [0, 1]


def test_a_worker_stops_while_the_group_starts(run_config, tally, monkeypatch):
    monkeypatch.setenv("SKATE_TRAIN_HUNG_AFTER", "0.5")
    monkeypatch.setattr("skate.train._workers.monitor.LOOK_SECONDS", 0.1)

    class Stopping(Backend):
        def on_start(self, worker_group, backend_config):
            if tally.add() == 1:
                worker_group.execute_single(1, die, "stopped")

    class StoppingConfig(BackendConfig):
        backend_cls = Stopping

    always = FailureConfig(max_failures=-1)  # on a busy machine others may seem to hang as well
    fit(lambda: None, run_config(failure_config=always), backend_config=StoppingConfig())
    assert len(tally) >= 2


def test_a_worker_that_dies_when_all_is_done_takes_nothing_back(run_config):
    class Dying(Backend):
        def on_shutdown(self, worker_group, backend_config):
            worker_group.execute_single(1, die, "killed")

    class DyingConfig(BackendConfig):
        backend_cls = Dying

    with pytest.warns(UserWarning, match="on_shutdown has failed"):
        result = fit(lambda: report(0), run_config(), backend_config=DyingConfig())
    assert result.error is None
    assert result.checkpoint.to_dict() == {"epoch": 0}
    assert not Path(result.path, "error.pkl").exists()


def test_workers_that_cannot_be_started_give_their_cpus_back(run_config, monkeypatch):
    def failing(self, *settings):
        raise OSError("no more processes")

    monkeypatch.setattr("skate.train._workers.group.WorkerGroup._start", failing)
    with pytest.raises(OSError, match="no more processes"):
        fit(lambda: None, run_config())
    eventually(lambda: skate.available_resources().get("CPU") == 2)


def test_a_rank_that_died_is_blamed_before_those_that_noticed(run_config, tmp_path, monkeypatch):
    monkeypatch.setattr("skate.train._conversation.OTHERS_TOO_SECONDS", PATIENCE)
    noticed = tmp_path / "noticed"

    def loop():
        if train.world_rank() == 0:
            noticed.touch()
            raise RuntimeError("connection closed by peer")
        eventually(noticed.exists)
        time.sleep(0.1)  # the news of a death may come later than its consequences
        die("killed")

    with pytest.raises(WorkerGroupError, match="rank 1") as caught:
        fit(loop, run_config())
    assert list(caught.value.worker_failures) == [1]


def test_what_a_loop_raises_of_its_own_tasks_is_no_death(run_config, tmp_path, monkeypatch):
    monkeypatch.setattr("skate.train._conversation.OTHERS_TOO_SECONDS", PATIENCE)
    failed = tmp_path / "failed"

    @skate.remote(num_cpus=0)
    def too_large():
        raise OutOfMemoryError("a task of the loop")

    def loop():
        if train.world_rank() == 0:
            try:
                skate.get(too_large.remote())
            finally:
                failed.touch()
        eventually(failed.exists)
        die("killed")

    with pytest.raises(WorkerGroupError, match="rank 1") as caught:
        fit(loop, run_config())
    assert list(caught.value.worker_failures) == [1]


def test_loops_that_are_stopped_clean_up(run_config, tmp_path):
    def loop():
        folder = tmp_path / f"of-{train.world_rank()}"
        folder.mkdir()
        try:
            for step in range(5):
                train.report(step=step)
        finally:
            folder.rmdir()

    result = fit(loop, run_config(stop={"step": 1}))
    assert result.metrics["step"] == 1
    assert not list(tmp_path.glob("of-*"))


def test_a_worker_is_lost_while_it_saves(run_config, tally):
    class DiesWhileItIsSaved:
        def __reduce__(self):
            if tally.add() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return DiesWhileItIsSaved, ()

    def loop():
        for epoch in epochs(3):
            values = {"epoch": epoch, "model": DiesWhileItIsSaved() if epoch == 1 else None}
            train.report({"epoch": epoch}, checkpoint=Checkpoint.from_dict(values))

    result = fit(loop, run_config(failure_config=FailureConfig(max_failures=1)))
    assert list(result.metrics_dataframe["epoch"]) == [0, 1, 2]
    names = sorted(name for name in os.listdir(result.path) if name.startswith("checkpoint_"))
    assert names == ["checkpoint_000000", "checkpoint_000001", "checkpoint_000002"]
    assert [c.to_dict()["epoch"] for c, _ in result.best_checkpoints] == [0, 1, 2]


def test_no_more_often_than_allowed(run_config, tally):
    def loop():
        if train.world_rank() == 1:
            tally.add()
            die("killed")
        train.report(step=0)

    with pytest.raises(WorkerGroupError, match="rank 1") as caught:
        fit(loop, run_config(failure_config=FailureConfig(max_failures=2)))
    assert len(tally) == 3
    words = "Training failed due to worker errors:\nrank 1: its process is dead: the worker"
    assert str(caught.value).startswith(words)
    assert "killed by SIGKILL" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert list(caught.value.worker_failures) == [1]


def test_an_exception_ends_all_and_says_where_it_was(run_config, tmp_path):
    def loop():
        (tmp_path / str(train.world_rank())).write_text(str(os.getpid()))
        if train.world_rank() == 1:
            eventually((tmp_path / "0").exists)
            this_fails = {}
            this_fails["no such key"]
        time.sleep(10 * PATIENCE)

    start = time.monotonic()
    with pytest.raises(KeyError) as caught:
        fit(loop, run_config())
    assert time.monotonic() - start < PATIENCE
    assert isinstance(caught.value, WorkerGroupError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), KeyError)
    assert isinstance(caught.value.__cause__, KeyError)
    assert isinstance(caught.value.worker_failures[1], KeyError)
    assert "rank 1" in str(caught.value)
    assert 'this_fails["no such key"]' in str(caught.value)
    other = int((tmp_path / "0").read_text())
    eventually(lambda: not psutil.pid_exists(other))
    assert (tmp_path / "runs" / "run" / "error.pkl").exists()


def test_ranks_that_never_meet(run_config):
    def loop():
        if train.world_rank() == 0:
            train.report(step=0)

    with pytest.raises(WorkerGroupError, match="equally often"):
        fit(loop, run_config())


def test_a_run_that_stands_still_says_whom_it_waits_for(run_config, flag, monkeypatch):
    monkeypatch.setattr("skate.train._workers.monitor.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("skate.train._view.FIRST_WORD_SECONDS", 0.1)
    told = flag("told")

    class Listening(io.StringIO):
        def write(self, text):
            written = super().write(text)
            if "rank 0 reported" in self.getvalue() and "for rank 1" in self.getvalue():
                told.set()
            return written

    def loop():
        if train.world_rank() == 1:
            told.wait()
        train.report(step=0)

    monkeypatch.setattr(sys, "stderr", Listening())
    fit(loop, run_config())
    assert told.is_set()


DRIVER = """
    import os, signal, sys, time
    from pathlib import Path
    from skate import train
    from skate.train import Checkpoint, DataParallelTrainer, RunConfig

    def loop(config):
        before = train.get_checkpoint()
        for epoch in range(before.to_dict()["epoch"] + 1 if before else 0, 4):
            if epoch == 2 and Path(config["wait"]).exists():
                time.sleep(1000)
            train.report({"epoch": epoch}, checkpoint=Checkpoint.from_dict({"epoch": epoch}))

    if __name__ == "__main__":
        DataParallelTrainer(
            loop,
            train_loop_config={"wait": sys.argv[2]},
            scaling_config={"num_workers": 2},
            run_config=RunConfig(name="run", storage_path=sys.argv[1]),
        ).fit()
"""


@pytest.mark.usefixtures("_session")
def test_the_driver_is_killed_and_the_run_restored(tmp_path):
    program, wait = tmp_path / "driver.py", tmp_path / "wait"
    program.write_text(textwrap.dedent(DRIVER))
    wait.touch()
    driver = Program([sys.executable, program, tmp_path, wait])
    results = tmp_path / "run" / "result.json"
    eventually(lambda: results.exists() and results.read_text().count("\n") == 2)
    family = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    driver.wait()
    eventually(lambda: not any(process.is_running() for process in family))

    wait.unlink()
    path = tmp_path / "run"
    assert DataParallelTrainer.can_restore(path)
    moved = path.rename(tmp_path / "moved")
    result = DataParallelTrainer.restore(moved).fit()
    assert Path(result.path) == moved
    assert list(result.metrics_dataframe["epoch"]) == [0, 1, 2, 3]
    assert result.metrics["training_iteration"] == 4
    assert len(result.best_checkpoints) == 4


def test_nothing_to_restore(tmp_path):
    assert not DataParallelTrainer.can_restore(tmp_path)
    with pytest.raises(ValueError, match="restore"):
        DataParallelTrainer.restore(tmp_path)


def test_a_rank_that_hangs_is_looked_for_in_its_own_code(run_config, flag):
    raised = flag("raised")

    def loop():
        if train.world_rank() == 1:
            raised.wait()
        train.report(loss=1)

    trainer = DataParallelTrainer(
        loop, scaling_config={"num_workers": 2}, run_config=run_config(verbose=0)
    )
    training = threading.Thread(target=trainer.fit)
    training.start()
    eventually(lambda: re.search(r"rank 1 is at .*\.py:\d+, in ", reasons_for_waits()))
    raised.set()
    training.join()
