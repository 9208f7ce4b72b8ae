"""Trials that are not as one would like them: they share a GPU, do not start, hang, print a lot,
or return where others report."""

import os
import re
import threading
from pathlib import Path

import pytest

from skate import tune
from skate.tune import Trainable, TuneConfig, Tuner
from skate.tune.error import TrialTimeoutError, TuneError
from tests.support import eventually, reasons_for_waits


@pytest.fixture
def fit(session, tmp_path):
    """Run trials of `trainable` with x = 0, 1, …; their results in this order."""

    def call(trainable, count=2, *, config=None, run=None):
        tuner = Tuner(
            trainable,
            param_space={"x": tune.grid_search(list(range(count)))},
            tune_config=TuneConfig(**(config or {})),
            run_config={"storage_path": str(tmp_path / "runs"), "verbose": 0, **(run or {})},
        )
        return tuner.fit()

    return call


class Marks:
    """Files that say who is there: trials are in other processes."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir()

    def set(self, name):
        (self.folder / str(name)).touch()

    def clear(self, name):
        (self.folder / str(name)).unlink()

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


def test_two_trials_share_a_gpu_and_a_third_waits_for_it(fit, tmp_path):
    running, met = Marks(tmp_path / "running"), Marks(tmp_path / "met")

    def objective(config):
        running.set(config["x"])
        together = len(running.names())
        met.set(config["x"])
        if config["x"] < 2:  # the first two wait for each other: they run at the same time
            eventually(lambda: {"0", "1"} <= set(met.names()))
        running.clear(config["x"])
        tune.report({"together": together, "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")})

    grid = fit(tune.with_resources(objective, {"cpu": 0.5, "gpu": 0.5}), 4)
    assert not grid.errors
    assert max(result.metrics["together"] for result in grid) == 2
    assert {result.metrics["gpus"] for result in grid} == {"0"}


class NoSetup(Trainable):
    def setup(self, config):
        if config["x"] == 0:
            raise OSError("there is no such dataset")

    def step(self):
        return {"score": 1, "done": True}


class Unloadable:
    """Can be sent, but not received."""

    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise ImportError("no module of this name on the other side")


def test_a_trial_whose_class_cannot_be_set_up_has_failed_and_others_have_not(fit):
    grid = fit(NoSetup)
    assert [result.error is None for result in grid] == [False, True]
    assert isinstance(grid[0].error, OSError)
    assert grid[1].metrics["score"] == 1


def test_trials_that_cannot_be_loaded_have_all_failed(fit):
    grid = fit(tune.with_parameters(lambda config, part: None, part=Unloadable()))
    assert len(grid.errors) == 2
    assert "no module of this name on the other side" in str(grid.errors[0])


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_trial_that_hangs_is_ended_and_counts_as_failed(fit, tmp_path, attempts):
    begun = Marks(tmp_path / "begun")

    def objective(config):
        begun.set(f"{config['x']}-{os.getpid()}")
        tune.report({"score": config["x"]})
        if config["x"] == 0:
            threading.Event().wait()

    failures = {"failure_config": {"max_failures": attempts - 1}}
    grid = fit(objective, config={"trial_timeout": 2}, run=failures)
    assert [result.error is None for result in grid] == [False, True]
    error = grid[0].error
    assert isinstance(error, TrialTimeoutError)
    assert isinstance(error, TuneError)
    assert isinstance(error, TimeoutError)
    assert error.seconds == 2
    assert "trial_timeout" in str(error)
    assert sum(name.startswith("0-") for name in begun.names()) == attempts
    assert grid[1].metrics["score"] == 1


def test_a_trial_that_reports_in_time_may_take_longer_than_that(fit, tmp_path):
    """And one that waits for the others, as with a seed, does not hang."""
    reported = Marks(tmp_path / "reported")

    def objective(config):
        for step in range(3):
            if config["x"] == 0 and step == 2:
                threading.Event().wait(2.5)
            reported.set(f"{config['x']}-{step}")
            tune.report({"step": step})

    grid = fit(objective, config={"trial_timeout": 60, "seed": 1})
    assert not grid.errors
    assert [result.metrics["step"] for result in grid] == [2, 2]


@pytest.mark.parametrize("wrong", [0, -1, "1 min"])
def test_a_timeout_is_a_time(wrong):
    with pytest.raises(ValueError, match="trial_timeout takes a number of seconds above 0; got"):
        TuneConfig(trial_timeout=wrong)


def test_what_trials_print_is_all_in_their_files(fit, capfd):
    lines = 20_000

    def objective(config):
        for number in range(lines):
            print(f"{config['x']} {number} {'.' * 80}")
        tune.report({"score": 1})

    grid = fit(objective, run={"log_to_file": True})
    assert not grid.errors
    for result in grid:
        text = (Path(result.path) / "stdout").read_text().splitlines()
        assert [line.split()[1] for line in text] == list(map(str, range(lines)))


def generator(config):
    for step in range(config["x"] + 1):
        yield {"score": step}


@pytest.mark.parametrize(
    ("objective", "metric", "expected"),
    [
        (lambda config: {"score": 10 + config["x"]}, "score", [10, 11]),
        (lambda config: 20.0 + config["x"], "_metric", [20.0, 21.0]),
        (generator, "score", [0, 1]),
    ],
    ids=["a dict", "a number", "a generator"],
)
def test_what_a_trial_returns_is_its_last_report(fit, objective, metric, expected):
    config = {"mode": "max"} if metric == "_metric" else {"metric": metric, "mode": "max"}
    grid = fit(objective, config=config)
    assert [result.metrics[metric] for result in grid] == expected
    best = grid.get_best_result(metric)
    assert best.config == {"x": 1}


def test_a_trial_that_says_nothing_at_all_has_ended_without_a_result(fit, capfd):
    grid = fit(lambda config: None, run={"verbose": 1})
    assert not grid.errors
    assert "has ended without a result: call tune.report" in capfd.readouterr().err


def test_a_trial_that_hangs_is_looked_for_in_its_own_code(fit, flag):
    raised = flag("raised")

    def stuck(config):
        raised.wait()

    search = threading.Thread(target=fit, args=(stuck, 1))
    search.start()
    eventually(lambda: re.search(r"trial \w+_00000 is at .*\.py:\d+, in ", reasons_for_waits()))
    raised.set()
    search.join()
