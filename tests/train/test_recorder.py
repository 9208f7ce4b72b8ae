"""What a run writes down, and how the next one reads it: in this process, or killed on the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from skate import train
from skate._run.folders import RemoteFolder
from skate._run.ledger import CHECKPOINTS_FILE, RESULT_FILE, RunFolderInUseError
from skate._run.loggers import LoggerCallback
from skate._run.storage import Storage
from skate.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointUploadMode,
    DataConfig,
    DataParallelTrainer,
    Result,
    RunConfig,
    ScalingConfig,
    UserCallback,
)
from skate.train.base_trainer import BaseTrainer
from skate.train.torch import TorchCheckpoint, TorchConfig, TorchTrainer
from tests.support import Program, run_program


def trainer(loop, run_config, workers=0, **settings):
    return DataParallelTrainer(
        loop, scaling_config={"num_workers": workers}, run_config=run_config, **settings
    )


def fit(loop, run_config, workers=0, **settings):
    return trainer(loop, run_config, workers, **settings).fit()


def counting(total):
    """A loop that goes on from its last checkpoint."""

    def loop():
        before = train.get_checkpoint()
        for step in range(before.to_dict()["step"] + 1 if before else 0, total):
            train.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))

    return loop


def elsewhere(tmp_path, **settings):
    return RunConfig(name="run", storage_path=f"memory://books/{tmp_path.name}", **settings)


def steps_of(kept):
    return [checkpoint.to_dict()["step"] for checkpoint, _ in kept]


# -- elsewhere ------------------------------------------------------------------------------------


def test_a_second_run_elsewhere_adds_to_the_books(tmp_path):
    fit(counting(2), elsewhere(tmp_path))
    result = fit(counting(4), elsewhere(tmp_path))
    storage = Storage.at(result.path, result.filesystem)
    names = [line["checkpoint_dir_name"] for line in storage.lines(CHECKPOINTS_FILE)]
    assert names == [f"checkpoint_{number:06d}" for number in range(4)]
    assert [row["step"] for row in storage.lines(RESULT_FILE)] == [0, 1, 2, 3]
    assert steps_of(result.best_checkpoints) == [0, 1, 2, 3]


def test_leftovers_of_a_dead_attempt_elsewhere_do_not_mix_with_a_checkpoint(tmp_path):
    fit(counting(1), elsewhere(tmp_path))
    storage = Storage(f"memory://books/{tmp_path.name}", "run")
    storage.draft("checkpoint_000001").write("of-the-dead", b"")
    result = fit(counting(2), elsewhere(tmp_path))
    with result.checkpoint.as_directory() as folder:
        assert os.listdir(folder) == ["dict_checkpoint.pkl"]


def test_a_run_elsewhere_is_restored(tmp_path):
    first = fit(counting(2), elsewhere(tmp_path))
    again = DataParallelTrainer.restore(
        first.path, counting(3), storage_filesystem=first.filesystem
    )
    assert again.fit().metrics["training_iteration"] == 3


def test_files_that_loggers_did_not_touch_are_not_uploaded(tmp_path):
    storage = Storage(f"memory://books/{tmp_path.name}", "sync")
    storage.append("books.json", {"n": 0})
    place = Path(storage.local_path)
    storage.append("books.json", {"n": 1})
    (place / "log.csv").write_text("a\n")
    storage.close()
    assert storage.lines("books.json") == [{"n": 0}, {"n": 1}]
    assert storage.read("log.csv") == b"a\n"


def test_results_elsewhere_are_not_all_uploaded_with_each(tmp_path, monkeypatch):
    uploads = []
    write = RemoteFolder.write

    def counting(self, name, data):
        uploads.append(name)
        write(self, name, data)

    def loop():
        for step in range(100):
            train.report(step=step)
        train.report({"step": 100}, checkpoint=Checkpoint.from_dict({"step": 100}))
        (line,) = train.get_all_reported_checkpoints()
        assert line.metrics["step"] == 100  # what makes a checkpoint count is there at once

    monkeypatch.setattr(RemoteFolder, "write", counting)
    result = fit(loop, elsewhere(tmp_path))
    assert uploads.count(RESULT_FILE) < 50
    assert list(result.metrics_dataframe["step"]) == list(range(101))


# -- names and places of checkpoints --------------------------------------------------------------


def test_a_name_that_is_used_again(run_config):
    def loop():
        for step in range(3):
            checkpoint = Checkpoint.from_dict({"step": step})
            train.report({"step": step}, checkpoint=checkpoint, checkpoint_dir_name="last")

    keep_one = CheckpointConfig(num_to_keep=1)
    result = fit(loop, run_config(checkpoint_config=keep_one))
    assert result.checkpoint.to_dict() == {"step": 2}
    found = Result.from_path(result.path)
    assert [metrics["step"] for _, metrics in found.best_checkpoints] == [2]
    assert not [name for name in os.listdir(result.path) if name.startswith("last.")]


def test_checkpoints_that_are_numbered_by_the_loop(run_config, tally):
    def loop():
        before = train.get_checkpoint()
        for epoch in range(before.to_dict()["step"] + 1 if before else 1, 5):
            saved, name = Checkpoint.from_dict({"step": epoch}), f"checkpoint_{epoch:06d}"
            train.report({"step": epoch}, checkpoint=saved, checkpoint_dir_name=name)
            if epoch == 2 and tally.add() == 1:
                raise RuntimeError("once")

    result = fit(loop, run_config(failure_config={"max_failures": 1}), workers=1)
    assert steps_of(result.best_checkpoints) == [1, 2, 3, 4]


def test_a_number_that_the_loop_has_given_is_not_given_again(run_config):
    def loop():
        for step, name in enumerate(("checkpoint_000001", None, "other", None)):
            saved = Checkpoint.from_dict({"step": step})
            train.report({"step": step}, checkpoint=saved, checkpoint_dir_name=name)

    result = fit(loop, run_config())
    assert steps_of(result.best_checkpoints) == [0, 1, 2, 3]
    assert len({checkpoint.path for checkpoint, _ in result.best_checkpoints}) == 4


@pytest.mark.parametrize("spelling", ["NO_UPLOAD", "upload_fn"])
@pytest.mark.parametrize("inside", [True, False])
def test_checkpoints_that_are_elsewhere_survive(run_config, tmp_path, spelling, inside):
    def upload(checkpoint, name):
        target = tmp_path / ("runs/run" if inside else "elsewhere") / "mine"
        return Checkpoint(checkpoint.to_directory(target))

    def loop():
        checkpoint = Checkpoint.from_dict({"step": 7})
        options = {"checkpoint_upload_fn": upload}
        if spelling == "NO_UPLOAD":
            checkpoint = upload(checkpoint, "")
            options = {"checkpoint_upload_mode": CheckpointUploadMode.NO_UPLOAD}
        train.report({"step": 7}, checkpoint=checkpoint, **options)

    result = fit(loop, run_config())
    folder = tmp_path / "moved"
    shutil.move(result.path, folder)
    assert Result.from_path(folder).checkpoint.to_dict() == {"step": 7}


def test_a_loop_that_uploads_by_itself_finds_the_place(run_config):
    def upload(checkpoint, name):
        storage = train.get_context().get_storage()
        place = storage.build_checkpoint_path_from_name(name)
        assert place == f"{storage.storage_fs_path}/{storage.experiment_dir_name}/{name}"
        return Checkpoint(checkpoint.to_directory(place), storage.storage_filesystem)

    def loop(config):
        settings = {"checkpoint_dir_name": "mine", "checkpoint_upload_fn": config["upload"]}
        train.report({"a": 1}, checkpoint=Checkpoint.from_dict({"step": 1}), **settings)
        (found,) = train.get_all_reported_checkpoints()
        assert found.metrics == {"a": 1}

    result = fit(loop, run_config(), 1, train_loop_config={"upload": upload})
    assert result.checkpoint.to_dict() == {"step": 1}
    with pytest.raises(
        TypeError, match=r"checkpoint_upload_fn must return a `skate.train.Checkpoint`.*None"
    ):
        fit(loop, run_config(), 0, train_loop_config={"upload": lambda checkpoint, name: None})


@pytest.mark.parametrize("workers", [0, 2])
def test_originals_are_deleted_when_they_are_recorded(run_config, tmp_path, workers):
    def loop():
        folder = tmp_path / f"original-{train.world_rank()}"
        folder.mkdir()
        (folder / f"part-{train.world_rank()}").touch()
        checkpoint = Checkpoint.from_directory(folder)
        train.report({}, checkpoint=checkpoint, delete_local_checkpoint_after_upload=True)
        assert not folder.exists()

    with fit(loop, run_config(), workers).checkpoint.as_directory() as folder:
        assert len(os.listdir(folder)) == max(workers, 1)


def test_what_is_not_copied_is_not_deleted(run_config, tmp_path):
    def loop():
        train.report(
            {},
            checkpoint=Checkpoint.from_directory(tmp_path / "mine"),
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
            delete_local_checkpoint_after_upload=True,
        )

    Checkpoint.from_dict({"a": 1}).to_directory(tmp_path / "mine")
    assert fit(loop, run_config()).checkpoint.to_dict() == {"a": 1}


def test_a_dict_of_another_rank_than_0(run_config):
    def loop():
        own = Checkpoint.from_dict({"rank": train.world_rank()})
        train.report({}, checkpoint=own if train.world_rank() == 1 else None)
        assert train.get_checkpoint().to_dict() == {"rank": 1}

    assert fit(loop, run_config(), workers=2).checkpoint.to_dict() == {"rank": 1}


def test_the_next_run_keeps_fewer_checkpoints(run_config):
    result = fit(counting(3), run_config())
    fit(counting(3), run_config(checkpoint_config=CheckpointConfig(num_to_keep=1)))
    names = [name for name in os.listdir(result.path) if name.startswith("checkpoint_")]
    assert names == ["checkpoint_000002"]


# -- what a crash leaves --------------------------------------------------------------------------


def test_a_checkpoint_without_its_result_did_not_happen(run_config):
    result = fit(counting(2), run_config())
    books = Path(result.path, RESULT_FILE)
    books.write_text("".join(books.read_text().splitlines(keepends=True)[:1]))
    assert [metrics["step"] for _, metrics in Result.from_path(result.path).best_checkpoints] == [
        0
    ]
    again = fit(counting(2), run_config())
    assert list(again.metrics_dataframe["step"]) == [0, 1]
    assert steps_of(again.best_checkpoints) == [0, 1]
    assert again.checkpoint.path.endswith("checkpoint_000001")


DRIVER = """
    import os, signal, sys
    from skate._run import folders, storage
    from skate import train
    from skate.train import Checkpoint, CheckpointConfig, DataParallelTrainer, RunConfig

    left = int(sys.argv[2])

    def dying(name):
        do = getattr(os, name)
        def call(*args, **kwargs):
            global left
            if recording:
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return do(*args, **kwargs)
        setattr(os, name, call)

    for name in ("rename", "replace", "makedirs", "stat", "rmdir", "unlink"):
        dying(name)
    recording = False

    def loop():
        global recording
        before = train.get_checkpoint()
        for step in range(before.to_dict()["step"] + 1 if before else 0, 3):
            recording = step == 1
            checkpoint = Checkpoint.from_dict({"step": step})
            train.report({"step": step}, checkpoint=checkpoint, checkpoint_dir_name=NAME)
            recording = False

    NAME = sys.argv[3] or None
    DataParallelTrainer(
        loop,
        scaling_config={"num_workers": 0},
        run_config=RunConfig(
            name="run", storage_path=sys.argv[1],
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
    ).fit()
"""


@pytest.mark.parametrize("name", ["", "last"])
def test_a_driver_killed_at_any_step_of_a_report(tmp_path, name):
    program = tmp_path / "driver.py"
    program.write_text(textwrap.dedent(DRIVER))

    def exit_code(place, number):
        return run_program([sys.executable, program, place, str(number), name]).returncode

    codes = []
    for number in range(0, 60, 3):
        place = tmp_path / str(number)
        codes.append(exit_code(place, number))
        if codes[-1] == 0:
            break
        assert codes[-1] == -9
        left = Result.from_path(place / "run")
        assert left.checkpoint.to_dict() == {"step": left.metrics["step"]}, number
        assert exit_code(place, 1000) == 0
        result = Result.from_path(place / "run")
        steps = list(result.metrics_dataframe["step"])
        assert steps == [0, 1, 2], number
        assert result.metrics["training_iteration"] == len(steps)
        assert result.checkpoint.to_dict() == {"step": 2}
        assert len(list((place / "run").glob("checkpoint_*"))) <= 1
        assert not [*(place / "run").glob("*.draft"), *(place / "run").glob("*.replaced")]
    assert codes[-1] == 0, "more operations than were tried"
    assert len(codes) > 2


HOLDER = """
    import sys
    from skate._run.ledger import claimed
    from skate._run.storage import Storage

    with claimed(Storage.at(sys.argv[1])):
        print("claimed", flush=True)
        sys.stdin.read()
"""


def test_a_folder_has_one_run_at_a_time(run_config, tmp_path):
    result = fit(counting(1), run_config())
    program = tmp_path / "holder.py"
    program.write_text(textwrap.dedent(HOLDER))
    pipe = subprocess.PIPE
    with Program([sys.executable, program, result.path], stdin=pipe, stdout=pipe) as held:
        assert held.stdout.readline() == "claimed\n"
        before = Path(result.path, RESULT_FILE).read_bytes()
        with pytest.raises(RunFolderInUseError, match="has not ended") as caught:
            fit(counting(2), run_config())
        assert result.path in str(caught.value)
        assert Path(result.path, RESULT_FILE).read_bytes() == before
        held.kill()
    assert fit(counting(2), run_config()).metrics["step"] == 1

    def loop():
        with pytest.raises(RunFolderInUseError):
            fit(counting(2), run_config())
        fit(counting(2), run_config(name="another"))

    fit(loop, run_config())


# -- ends -----------------------------------------------------------------------------------------


class TakesTwoError(Exception):
    def __init__(self, what, where):
        super().__init__(f"{what} at {where}")


def test_an_error_that_cannot_be_read_again_is_its_text(run_config, tmp_path):
    def loop():
        train.report(step=0)
        raise TakesTwoError("a fault", "noon")

    with pytest.raises(TakesTwoError):
        fit(loop, run_config())
    error = Result.from_path(tmp_path / "runs" / "run").error
    assert "a fault at noon" in str(error)


def test_books_are_closed_once_whatever_callbacks_do(run_config):
    ends = []

    class Failing(UserCallback):
        def after_exception(self, run_context, worker_exceptions):
            raise OSError("the callback's own")

        def on_trial_error(self, *args, **info):
            ends.append("error")

        def on_experiment_end(self, *args, **info):
            ends.append("end")

    def loop():
        raise ValueError("the loop's")

    with pytest.raises(OSError, match="own"):
        fit(loop, run_config(callbacks=[Failing()]))
    assert ends == ["error", "end"]


def test_callbacks_know_a_run_by_itself(run_config):
    class Counting(LoggerCallback):
        def log_trial_start(self, trial):
            self.seen = {trial: 0}

        def log_trial_result(self, iteration, trial, result):
            self.seen[trial] += 1

    callback = Counting()
    fit(counting(2), run_config(callbacks=[callback]))
    assert list(callback.seen.values()) == [2]


def test_nested_names_stop_a_run(run_config):
    def loop():
        for step in range(5):
            train.report({"nested": {"step": step}})

    result = fit(loop, run_config(stop={"nested/step": 2}))
    assert result.metrics["nested"] == {"step": 2}


# -- restoring ------------------------------------------------------------------------------------


def test_restored_with_other_settings(run_config):
    own = run_config()
    first = TorchTrainer(counting(1), scaling_config={"num_workers": 0}, run_config=own).fit()
    again = TorchTrainer.restore(
        first.path,
        counting(2),
        torch_config=TorchConfig(timeout_s=7),
        scaling_config=ScalingConfig(num_workers=0),
        run_config=own,
    )
    assert again.backend_config == TorchConfig(timeout_s=7)
    assert own.storage_path == run_config().storage_path
    with pytest.raises(TypeError, match=r"no parameter 'scalingconfig'.* scaling_config"):
        TorchTrainer.restore(first.path, scalingconfig={})


def test_what_cannot_be_kept_is_asked_for(run_config):
    class OnlyHere:
        def __reduce__(self):
            raise TypeError("lives in this process")

    config, datasets = {"step": 1}, DataConfig()
    datasets.of = OnlyHere()
    settings = {"train_loop_config": config, "dataset_config": datasets}
    first = fit(counting(1), run_config(), **settings)
    with pytest.raises(ValueError, match=r"\['dataset_config'\] could not be kept"):
        DataParallelTrainer.restore(first.path)
    again = DataParallelTrainer.restore(first.path, dataset_config=DataConfig(uneven="drop"))
    assert again.train_loop_config == config
    assert again.dataset_config._uneven == "drop"


def test_a_restored_run_is_the_same_to_trackers(run_config):
    def loop():
        train.report({}, checkpoint=TorchCheckpoint.from_dict({"step": 0}))

    first = fit(loop, run_config())
    again = DataParallelTrainer.restore(first.path).fit()
    assert again.metrics["trial_id"] == first.metrics["trial_id"]
    assert type(Result.from_path(first.path).checkpoint) is TorchCheckpoint


# -- sizes ----------------------------------------------------------------------------------------


def test_large_arrays_of_the_configuration_are_not_written_with_each_result(run_config):
    config = {"data": {"x": np.zeros((200, 100))}, "small": np.arange(3), "lr": 0.1}
    result = fit(lambda config: train.report(step=0), run_config(), train_loop_config=config)
    (row,) = map(json.loads, Path(result.path, RESULT_FILE).read_text().splitlines())
    assert row["config"] == {
        "data": {"x": "<ndarray of shape (200, 100)>"}, "small": [0, 1, 2], "lr": 0.1,
    }  # fmt: skip
    assert result.config["data"]["x"] is config["data"]["x"]


def test_the_checkpoint_to_begin_with_is_sent_once(run_config, tally):
    class Counted:
        def __reduce__(self):
            tally.add()
            return Counted, ()

    def loop():
        for step in range(3):
            train.report(step=step)
        assert "model" in train.get_checkpoint().to_dict()

    begin = Checkpoint.from_dict({"model": Counted()})
    fit(loop, run_config(), workers=1, resume_from_checkpoint=begin)
    assert len(tally) == 2  # for the worker, and for restore


WITHOUT_ARROW = """
    import sys
    sys.modules["pyarrow"] = None
    from skate import train
    from skate.train import Checkpoint, DataParallelTrainer, RunConfig

    def loop():
        for step in range(2):
            train.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))

    result = DataParallelTrainer(
        loop,
        scaling_config={"num_workers": 0},
        run_config=RunConfig(name="run", storage_path=sys.argv[1]),
    ).fit()
    assert result.checkpoint.to_dict() == {"step": 1}
"""


def test_training_without_datasets_needs_no_arrow(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(WITHOUT_ARROW))
    run_program([sys.executable, program, tmp_path], check=True)


def test_sums_go_on_from_the_last_checkpoint(run_config):
    def loop():
        before = train.get_checkpoint()
        train.report({"timesteps_this_iter": 10}, checkpoint=Checkpoint.from_dict({}))
        if before is None:
            train.report({"timesteps_this_iter": 10})
            raise RuntimeError("the first time")

    with pytest.raises(RuntimeError):
        fit(loop, run_config())
    again = fit(loop, run_config())
    assert list(again.metrics_dataframe["timesteps_total"]) == [10, 20]


def _rows_in_tensorboard(folder):
    from tensorboardX.proto import event_pb2

    from skate._core.record_files import records_in

    found = []
    for place in sorted(Path(folder).glob("events.out.tfevents.*")):
        for record in records_in(place.read_bytes()):
            event = event_pb2.Event.FromString(record)
            found += [event.step for v in event.summary.value if v.tag == "ray/tune/step"]
    return found


def test_tensorboard_has_no_step_twice_after_a_restart(run_config, tmp_path):
    def loop():
        before = train.get_checkpoint()
        first = before.to_dict()["step"] + 1 if before else 1
        for step in range(first, 6):
            saved = Checkpoint.from_dict({"step": step}) if step == 2 else None
            train.report({"step": step}, checkpoint=saved)
            if step == 4 and not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                raise RuntimeError("once")

    again = fit(loop, run_config(failure_config={"max_failures": 1}), workers=1)
    assert _rows_in_tensorboard(again.path) == [1, 2, 3, 4, 5]


def test_nor_after_a_run_that_was_taken_up(run_config, tmp_path):
    def loop():
        before = train.get_checkpoint()
        train.report({"step": 1}) if before else None
        if before is None:
            train.report({"step": 0}, checkpoint=Checkpoint.from_dict({}))
            train.report({"step": 1})
            raise RuntimeError("the first time")

    with pytest.raises(RuntimeError):
        fit(loop, run_config())
    assert _rows_in_tensorboard(fit(loop, run_config()).path) == [1, 2]


class Counting(BaseTrainer):
    """Trains by itself, and fails in the middle unless it is told not to."""

    fails = True

    def training_loop(self):
        before = train.get_checkpoint()
        for step in range(before.to_dict()["step"] + 1 if before else 0, 4):
            train.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))
            if step == 1 and self.fails:
                raise RuntimeError("in the middle")


def test_a_trainer_of_ones_own_goes_on(run_config, tmp_path):
    with pytest.raises(RuntimeError, match="in the middle"):
        Counting(run_config=run_config()).fit()
    folder = tmp_path / "runs" / "run"
    assert Counting.can_restore(folder)
    assert not Counting.can_restore(tmp_path)
    result = Counting.restore(folder, fails=False).fit()
    assert [row["step"] for row in Storage.at(folder).lines(RESULT_FILE)] == [0, 1, 2, 3]
    assert result.metrics["training_iteration"] == 4
    with pytest.raises(TypeError, match="speed"):
        Counting.restore(folder, speed=1)
    with pytest.raises(ValueError, match="a Counting"):
        type("Other", (BaseTrainer,), {}).restore(folder)
    with pytest.raises(ValueError, match="none"):
        BaseTrainer.restore(tmp_path)
