"""What goes wrong around trials: it costs whom it concerns, and never the search."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest

import skate
from skate import tune
from skate._run.context import SessionInfo
from skate._run.storage import Storage
from skate.tune.execution import worker as process
from skate.tune.execution.channel import Channel
from skate.tune.execution.events import Began, Ended, Reported, Saved, TrialVerdict
from skate.tune.execution.pool import WorkerPool
from skate.tune.execution.session import CLEANUP_SECONDS, TrialTask
from skate.tune.experiment import Trial
from skate.tune.schedulers import FIFOScheduler, PopulationBasedTraining
from tests.support import eventually
from tests.tune.test_running import Counter, last


class Pausing(FIFOScheduler):
    """Pauses each trial once."""

    def __init__(self):
        super().__init__()
        self.paused = set()

    def on_trial_result(self, tune_controller, trial, result):
        new = trial.trial_id not in self.paused
        self.paused.add(trial.trial_id)
        return self.PAUSE if new else self.CONTINUE


class TestHalting:
    """Of one trial in a worker, without a driver."""

    @pytest.fixture
    def clock(self, monkeypatch):
        """What the worker takes for the time: it stands still unless a trial moves it."""
        now = SimpleNamespace(seconds=0.0)
        monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: now.seconds))
        monkeypatch.setattr(process, "_LONGEST_CALL_SECONDS", 0.1)
        return now

    @pytest.fixture
    def worker(self, tmp_path, clock):

        def begun(trainable):
            storage = Storage(tmp_path, "trial")
            place = SessionInfo("experiment", "trial", "t", str(tmp_path), storage=storage)
            made = process.TrialWorker(trainable)
            assert made.begin(TrialTask(place, {"by": 1}))[0] == Began(os.getpid())
            while made.exchange(TrialVerdict.GO_ON) == []:
                pass
            return made

        return begun

    def test_a_trial_that_does_not_listen_is_stuck(self, worker, clock):
        ends = []

        def deaf(config):
            while not ends:
                try:
                    tune.report(a=1)
                except BaseException:
                    clock.seconds += 2 * process._GRACE_SECONDS

        deaf_one = worker(deaf)
        assert deaf_one.exchange(TrialVerdict.HALT) == [Ended(stuck=True)]
        ends.append(True)
        eventually(lambda: deaf_one.exchange(TrialVerdict.HALT) == [Ended()])

    def test_the_last_checkpoint_may_take_its_time(self, worker, clock):
        def take_time():
            clock.seconds += 2 * process._GRACE_SECONDS
            time.sleep(2 * process._LONGEST_CALL_SECONDS)  # so that the worker looks at its clock

        class Slow(Counter):
            def save_checkpoint(self, checkpoint_dir):
                take_time()
                return {"value": self.value}

            def cleanup(self):
                take_time()

        items = worker(Slow).exchange(TrialVerdict.HALT_AND_SAVE)
        assert items == [Saved("checkpoint_000000"), Ended()]

    def test_a_clean_up_that_does_not_end_is_stuck(self, worker, clock):
        release = threading.Event()

        class Endless(Counter):
            def cleanup(self):
                clock.seconds += CLEANUP_SECONDS + 1
                release.wait()

        items = worker(Endless).exchange(TrialVerdict.HALT_AND_SAVE)
        release.set()
        assert items == [Saved("checkpoint_000000"), Ended(stuck=True)]

    def test_nor_does_it_hide_why_the_trial_has_failed(self, worker, clock):
        release = threading.Event()

        class Broken(Counter):
            def step(self):
                if self.iteration:
                    raise ValueError("broken")
                return super().step()

            def cleanup(self):
                clock.seconds += CLEANUP_SECONDS + 1
                release.wait()

        broken = worker(Broken)
        with pytest.raises(ValueError, match="broken"):
            broken.exchange(TrialVerdict.GO_ON)
        release.set()


def test_the_last_result_counts_if_it_comes_while_others_are_taken(tmp_path, monkeypatch):
    others_taken = threading.Event()

    def take(channel, *arguments):
        taken = Channel.take(channel, *arguments)
        others_taken.set()
        for thread in threading.enumerate():
            if thread.name == "trial":
                thread.join(30)  # what it does from here on is not among what was taken
        return taken

    def objective(config):
        tune.report(a=1)
        assert others_taken.wait(30)
        tune.report(a=2)

    monkeypatch.setattr(process, "Channel", type("Preempted", (Channel,), {"take": take}))
    storage = Storage(tmp_path, "trial")
    worker = process.TrialWorker(objective)
    place, nowhere = SessionInfo(trial_id="t", storage=storage), ("training_iteration", ())
    worker.begin(TrialTask(place, {}, waits_at=nowhere))
    items = []
    while Ended() not in items:
        items += worker.exchange(TrialVerdict.GO_ON)
    assert [item.result["a"] for item in items if isinstance(item, Reported)] == [1, 2]


def test_a_folder_that_cannot_be_entered_leaves_the_next_trial_alone(tmp_path):
    (tmp_path / "file").touch()
    before = os.getcwd()
    worker = process.TrialWorker(lambda config: tune.report(at=os.getcwd()))
    place = SessionInfo(trial_id="t", storage=Storage(tmp_path, "trial"))

    def run(folder):
        task = TrialTask(
            place, {}, waits_at=("training_iteration", ()), working_directory=str(folder)
        )
        items = list(worker.begin(task))
        while Ended() not in items:
            items += worker.exchange(TrialVerdict.GO_ON)
        return [item.result["at"] for item in items if isinstance(item, Reported)]

    with pytest.raises(NotADirectoryError):
        run(tmp_path / "file" / "folder")
    assert run(tmp_path / "folder") == [str(tmp_path / "folder")]
    assert os.getcwd() == before


def test_a_trial_finds_room_when_another_has_given_it_back(session):
    resources = tune.PlacementGroupFactory([{"CPU": 1}])
    first, second = (Trial("f", placement_group_factory=resources) for _ in range(2))
    trainable = lambda config: None  # noqa: E731
    pool = WorkerPool(lambda trial: trainable, {"CPU": 1}, reuse=True)
    worker = pool.take(first)
    assert pool.take(second) is None
    assert pool.take(second) is None
    pool.give_back(worker)
    assert pool.take(second) is worker
    pool.drop(worker)
    assert pool.take(first) is not None
    pool.close()


def test_a_search_shares_the_machine(tmp_path):
    """The resources that somebody else holds are missing for a worker that has been started."""

    @skate.remote(num_cpus=1)
    class Holder:
        def ready(self):
            return True

    def objective(config):
        tune.report(a=1)

    skate.init(num_cpus=2)
    try:
        holder = Holder.remote()
        assert skate.get(holder.ready.remote())
        analysis = tune.run(objective, num_samples=4, storage_path=tmp_path, verbose=0)
        assert [trial.status for trial in analysis.trials] == ["TERMINATED"] * 4
    finally:
        skate.shutdown()


def test_parameters_outlive_a_session(tmp_path):
    def objective(config, value):
        tune.report(a=value)

    trainable = tune.with_parameters(objective, value=7)
    for name in ("first", "second"):
        skate.init(num_cpus=1)
        try:
            analysis = tune.run(trainable, storage_path=tmp_path, name=name, verbose=0)
        finally:
            skate.shutdown()
        assert last(analysis)[0]["a"] == 7


def test_a_save_that_fails_is_the_failure_of_its_trial(run):
    class Unsaved(Counter):
        def save_checkpoint(self, checkpoint_dir):
            if self.by == 1:
                raise OSError("the disk is full")
            return super().save_checkpoint(checkpoint_dir)

    analysis = run(
        Unsaved, config={"by": tune.grid_search([1, 2])}, stop={"training_iteration": 3},
        scheduler=Pausing(), raise_on_failed_trial=False,
    )  # fmt: skip
    assert [trial.status for trial in analysis.trials] == ["ERROR", "TERMINATED"]
    assert "the disk is full" in str(analysis.trials[0].get_error())


def test_a_slow_save_holds_up_nobody_else(run, tmp_path):
    """The first trial's checkpoint is complete only after the second has gone on."""

    class Slow(Counter):
        def step(self):
            if self.by == 2:
                (tmp_path / f"step {self.value}").touch()
            return super().step()

        def save_checkpoint(self, checkpoint_dir):
            deadline = time.monotonic() + 60
            while self.by == 1 and not (tmp_path / "step 16").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            return super().save_checkpoint(checkpoint_dir)

    class PausingTheFirst(Pausing):
        def on_trial_result(self, tune_controller, trial, result):
            first = trial.config["by"] == 1
            return super().on_trial_result(tune_controller, trial, result) if first else "CONTINUE"

    analysis = run(
        Slow, config={"by": tune.grid_search([1, 2])}, stop={"training_iteration": 12},
        scheduler=PausingTheFirst(),
    )  # fmt: skip
    assert [result["value"] for result in last(analysis)] == [12, 24]


def test_a_population_that_keeps_few_checkpoints(run):
    analysis = run(
        Counter, config={"by": tune.grid_search([1, 2, 3, 4])}, stop={"training_iteration": 12},
        metric="value", mode="max", keep_checkpoints_num=1, checkpoint_freq=1,
        scheduler=PopulationBasedTraining(
            time_attr="training_iteration", perturbation_interval=2,
            hyperparam_mutations={"by": [1, 2, 3, 4]},
        ),
    )  # fmt: skip
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"] * 4


def test_a_clean_up_that_never_ends_does_not_stop_the_search(run, monkeypatch):
    monkeypatch.setenv("TUNE_FORCE_TRIAL_CLEANUP_S", "0.5")

    class Endless(Counter):
        def cleanup(self):
            threading.Event().wait()

    analysis = run(Endless, config={"by": 1}, stop={"training_iteration": 1}, num_samples=2)
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"] * 2


def test_a_failed_process_is_not_used_again(run):
    def leaving_traces(config):
        import skate.tune

        dirty = hasattr(skate.tune, "trace")
        skate.tune.trace = True
        tune.report(dirty=dirty)
        if config["fails"]:
            raise ValueError("and leaves something behind")

    analysis = run(
        leaving_traces, config={"fails": tune.grid_search([True, False])},
        max_concurrent_trials=1, raise_on_failed_trial=False,
    )  # fmt: skip
    assert [result["dirty"] for result in last(analysis)] == [False, False]


def test_a_failed_instance_is_not_used_again(run):
    class Breaking(Counter):
        def setup(self, config):
            super().setup(config)
            self.resets = 0

        def reset_config(self, config):
            self.resets += 1
            self.by = config["by"]
            return True

        def step(self):
            if self.by == 1:
                raise ValueError("broken")
            return {**super().step(), "resets": self.resets}

    analysis = run(
        Breaking, config={"by": tune.grid_search([1, 2])}, stop={"training_iteration": 1},
        reuse_actors=True, max_concurrent_trials=1, raise_on_failed_trial=False,
    )  # fmt: skip
    assert analysis.trials[1].last_result["resets"] == 0


def test_a_process_that_dies_between_trials_costs_none(run):
    class Killer(tune.Callback):
        """Ends the process of the first trial when it is idle."""

        def on_trial_start(self, iteration, trials, trial, **info):
            self.pid = int(trial.location.partition("=")[2])

        def on_trial_complete(self, iteration, trials, trial, **info):
            if trial is trials[0]:
                os.kill(self.pid, signal.SIGKILL)

    def objective(config):
        tune.report(a=1)

    analysis = run(objective, num_samples=2, max_concurrent_trials=1, callbacks=[Killer()])
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"] * 2


def test_what_came_after_the_checkpoint_is_taken_back(run, tmp_path):
    def objective(config):
        start = tune.get_checkpoint().to_dict()["step"] + 1 if tune.get_checkpoint() else 1
        for step in range(start, 6):
            if step == 5 and not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                raise ValueError("once")
            made = tune.Checkpoint.from_dict({"step": step}) if step == 2 else None
            tune.report({"step": step}, checkpoint=made)

    (trial,) = run(objective, max_failures=1).trials
    assert [row["step"] for row in trial.storage.lines("result.json")] == [1, 2, 3, 4, 5]
    assert len(trial.storage.read("progress.csv").splitlines()) == 6
    assert trial.metric_analysis["step"]["avg"] == 3


class TestDraftsOfTheDead:
    """A process that dies in the middle of a checkpoint leaves half of it behind, under the name
    that the next attempt uses."""

    @staticmethod
    def write(folder, first_time):
        if not os.path.exists(first_time):
            open(first_time, "w").close()
            open(os.path.join(folder, "half"), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        open(os.path.join(folder, "whole"), "w").close()

    def test_of_functions(self, run, tmp_path):
        write, first_time = self.write, str(tmp_path / "first time")

        def objective(config):
            with tune.checkpoint_dir(0) as folder:
                write(folder, first_time)
            tune.report(a=1)

        checkpoint = run(objective, max_failures=1).trials[0].checkpoint
        assert os.listdir(checkpoint.path) == ["whole"]

    def test_of_classes(self, run, tmp_path):
        write, first_time = self.write, str(tmp_path / "first time")

        class Saved(tune.Trainable):
            def step(self):
                return {"done": True}

            def save_checkpoint(self, checkpoint_dir):
                write(checkpoint_dir, first_time)

        config = tune.CheckpointConfig(checkpoint_at_end=True)
        analysis = run(Saved, max_failures=1, checkpoint_config=config)
        found = os.listdir(analysis.trials[0].checkpoint.path)
        assert "whole" in found
        assert "half" not in found


def test_sums_of_a_trial_go_on_from_its_checkpoint(run):
    def counting(config):
        before = tune.get_checkpoint()
        for step in range(before.to_dict()["step"] + 1 if before else 0, 4):
            saved = tune.Checkpoint.from_dict({"step": step}) if step == 1 else None
            tune.report({"timesteps_this_iter": 10}, checkpoint=saved)
            if step == 2 and before is None:
                raise RuntimeError("once")

    (trial,) = run(counting, max_failures=1).trials
    assert trial.last_result["timesteps_total"] == 40


def test_a_process_that_ends_with_its_trial_is_not_the_fault_of_the_next(run):
    """Which was given to it while the one before was told to stop."""

    def objective(config):
        try:
            tune.report({"score": config["x"]})
        finally:
            if config["x"] < 3:
                os._exit(1)

    analysis = run(
        objective,
        config={"x": tune.grid_search([0, 1, 2, 3])},
        stop=lambda trial_id, result: True,
        max_concurrent_trials=1,
    )
    assert [trial.num_results for trial in analysis.trials] == [1, 1, 1, 1]
    assert {trial.status for trial in analysis.trials} == {"TERMINATED"}


def test_a_trial_that_ends_its_process_is_not_run_again_for_that(run, tmp_path):
    """Also in a process that another trial has used."""
    begun = tmp_path / "begun"
    begun.mkdir()

    def objective(config):
        (begun / f"{config['x']}-{os.getpid()}").touch()
        if config["x"] == 1:
            os._exit(1)
        tune.report({"score": 1})

    analysis = run(
        objective,
        config={"x": tune.grid_search([0, 1, 2])},
        stop=lambda trial_id, result: True,
        max_concurrent_trials=1,
        raise_on_failed_trial=False,
    )
    assert [trial.status for trial in analysis.trials] == ["TERMINATED", "ERROR", "TERMINATED"]
    assert sorted(path.name.partition("-")[0] for path in begun.iterdir()) == ["0", "1", "2"]
