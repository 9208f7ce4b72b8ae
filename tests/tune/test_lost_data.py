"""What a tuner keeps must not rest on the objects of its session: another session gives them
numbers of its own, so that a stored reference would mean other data."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import skate
import skate.data
from skate import train, tune
from skate.train import DataParallelTrainer
from skate.tune.error import LostDataError


@contextmanager
def a_session() -> Iterator[None]:
    skate.init(num_cpus=2)
    try:
        yield
    finally:
        skate.shutdown()


def rows(what, folder):
    if what == "file":
        return skate.data.read_csv(str(folder / "rows.csv"))
    made = skate.data.from_items([{"x": i} for i in range(5)])
    return made.map(lambda row: row).materialize() if what == "in the store" else made


def searched(kind, what, folder):
    """A trainable and its space; it fails until there is a file."""

    def total_of(dataset):
        if not os.path.exists(folder / "go"):
            raise ValueError("not this time")
        return {"total": sum(row["x"] for row in dataset.iter_rows())}

    def loop():
        train.report(total_of(train.get_dataset_shard("train")))

    def trial(config):
        tune.report(total_of(config["data"]))

    if kind == "space":
        return trial, {"data": rows(what, folder)}
    datasets = {"train": rows(what, folder)}
    return DataParallelTrainer(loop, scaling_config={"num_workers": 1}, datasets=datasets), {}


def begin(kind, what, folder):
    with a_session():
        trainable, space = searched(kind, what, folder)
        place = tune.RunConfig(name="search", storage_path=folder, verbose=0)
        assert tune.Tuner(trainable, param_space=space, run_config=place).fit().errors
    (folder / "go").touch()


def go_on(folder, **given):
    tuner = tune.Tuner.restore(str(folder / "search"), restart_errored=True, **given)
    return [result.metrics.get("total", result.error) for result in tuner.fit()]


@pytest.mark.parametrize(
    ("kind", "argument"), [("space", "param_space"), ("trainer", "trainable")]
)
def test_rows_in_the_store_are_asked_for_and_never_confused(tmp_path, kind, argument):
    begin(kind, "in the store", tmp_path)
    with a_session():
        others = [skate.put([{"x": 999}]) for _ in range(30)]  # with the numbers of those
        with pytest.raises(LostDataError, match=rf"Tuner\.restore\(path, {argument}=…\)"):
            go_on(tmp_path)
        trainable, space = searched(kind, "in the store", tmp_path)
        assert go_on(tmp_path, trainable=trainable, param_space=space) == [10]
        assert len(others) == 30


@pytest.mark.parametrize("what", ["in the plan", "file"])
def test_plans_are_kept(tmp_path, what):
    (tmp_path / "rows.csv").write_text("x\n0\n1\n2\n3\n4\n")
    begin("space", what, tmp_path)
    with a_session():
        assert go_on(tmp_path) == [10]


def test_trials_with_results_go_on_with_references_that_are_given_again(tmp_path):
    def trial(config):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = tune.Checkpoint.from_directory(folder)
            tune.report({"seen": skate.get(config["ref"])}, checkpoint=checkpoint)
        if not os.path.exists(tmp_path / "go"):
            raise ValueError("not this time")

    def space(*values):
        return {"ref": tune.grid_search([skate.put(value) for value in values])}

    with a_session():
        place = tune.RunConfig(name="search", storage_path=tmp_path, verbose=0)
        assert tune.Tuner(trial, param_space=space("a", "b"), run_config=place).fit().num_errors
    (tmp_path / "go").touch()
    with a_session():
        others = [skate.put("other") for _ in range(30)]  # with the numbers of those
        again = {"param_space": space("A", "B"), "resume_errored": True}
        results = tune.Tuner.restore(str(tmp_path / "search"), trial, **again).fit()
        assert [result.metrics["seen"] for result in results] == ["A", "B"]
        assert [skate.get(result.config["ref"]) for result in results] == ["A", "B"]
        assert len(others) == 30
    with a_session():
        again = {"param_space": space("x", "y")}
        results = tune.Tuner.restore(str(tmp_path / "search"), trial, **again).fit()
        assert [result.metrics["seen"] for result in results] == ["A", "B"]
        assert [skate.get(result.metrics["config"]["ref"]) for result in results] == ["x", "y"]
