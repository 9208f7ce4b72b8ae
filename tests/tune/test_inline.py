"""The engine without processes."""

import os
import threading
from pathlib import Path

import pytest
from pyarrow import fs

import skate
from skate import tune
from skate.tune.execution import launch
from skate.tune.schedulers import ASHAScheduler
from tests.support import PATIENCE


@pytest.fixture
def inline():
    skate.init(engine="inline", num_cpus=2)
    yield
    skate.shutdown()


def test_without_processes(inline, tmp_path):
    def objective(config):
        for step in range(3):
            empty = tune.Checkpoint.from_dict({})
            tune.report({"loss": config["x"] / (step + 1)}, checkpoint=empty)

    analysis = tune.run(
        objective, config={"x": tune.grid_search([1, 2, 3])}, storage_path=tmp_path,
        metric="loss", mode="min", scheduler=ASHAScheduler(max_t=3, reduction_factor=2),
    )  # fmt: skip
    assert analysis.best_config == {"x": 1}
    assert "TUNE_ORIG_WORKING_DIR" not in os.environ  # of this process, which goes on


both = threading.Barrier(2)


def overlapping(config):
    both.wait(PATIENCE)  # each has begun before the other ends
    tune.report({"loss": config["x"]})
    both.wait(PATIENCE)


def test_the_program_is_where_it_was_after_trials_in_their_folders(inline, tmp_path, monkeypatch):
    here = os.getcwd()
    tune.run(
        overlapping, config={"x": tune.grid_search([1, 2])}, storage_path=tmp_path,
        chdir_to_trial_dir=True,
    )  # fmt: skip
    assert os.getcwd() == here
    assert "TUNE_ORIG_WORKING_DIR" not in os.environ
    # Trials that share a process share its directory: none is moved that does not ask for it.
    monkeypatch.setenv("SKATE_AS_RAY", "1")
    assert not launch._changes_directory(tune.TuneConfig())


class Saving(tune.Trainable):
    def step(self):
        return {"value": self.iteration}

    def save_checkpoint(self, checkpoint_dir):
        Path(checkpoint_dir, "state").write_text(str(self.iteration))


def older_way(config):
    print("hello")
    for step in range(3):
        path = Path(tune.make_checkpoint_dir(step), "state")
        path.write_text(str(step))
        if step != 1:
            tune.save_checkpoint(path)
        tune.report(value=step)
    tune.make_checkpoint_dir(3)


@pytest.mark.parametrize("trainable", [Saving, older_way])
def test_nothing_stays_here_of_a_search_that_is_elsewhere(
    inline, tmp_path, monkeypatch, trainable
):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(here))
    options = {"checkpoint_freq": 1} if trainable is Saving else {}
    analysis = tune.run(
        trainable, stop={"training_iteration": 3}, verbose=0, log_to_file=True, name="search",
        storage_path="experiments", **options,
        storage_filesystem=fs.SubTreeFileSystem(str(there), fs.LocalFileSystem()),
    )  # fmt: skip
    trial = analysis.trials[0]
    folder = there / "experiments" / "search" / trial.dirname
    checkpoints = sorted(place.name for place in folder.glob("checkpoint_*"))
    expected = range(3) if trainable is Saving else (0, 2)
    assert checkpoints == [f"checkpoint_{number:06d}" for number in expected]
    assert "hello" in (folder / "stdout").read_text() or trainable is Saving
    assert analysis.results_df["value"].tolist() == [2]
    assert os.listdir(here) == []
