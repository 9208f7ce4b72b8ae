"""An experiment that is taken up with what is given again: functions, spaces, settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skate import tune
from skate.tune import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, Tuner
from skate.tune.search.renewal import renewed

Run = Callable[..., tune.ExperimentAnalysis]


class Table:
    """Stands for something that lives in one session only."""

    def __init__(self, name: str) -> None:
        self.name = name


def _settings(folder: Path, **settings: Any) -> RunConfig:
    return RunConfig(name="run", storage_path=str(folder), verbose=0, **settings)


def _failing(config: dict[str, Any]) -> None:
    tune.report({"seen": None})
    raise RuntimeError("not yet")


def test_trials_get_the_objects_of_the_space_that_is_given_again(
    session: None, tmp_path: Path
) -> None:
    def space(*names: str) -> dict[str, Any]:
        first, second, third = map(Table, names)
        return {
            "table": tune.grid_search([first, second]),
            "n": {"more": third, "lr": tune.uniform(0, 1)},
            "fixed": 3,
        }

    tuner = Tuner(_failing, param_space=space("a", "b", "c"), run_config=_settings(tmp_path))
    first: Any = tuner.fit()

    def _failing_(config: dict[str, Any]) -> dict[str, Any]:
        return {"seen": [config["table"].name, config["n"]["more"].name]}

    _failing_.__name__ = "_failing"
    again: Any = {"param_space": space("A", "B", "C"), "resume_errored": True}
    results: Any = Tuner.restore(tmp_path / "run", _failing_, **again).fit()
    assert [result.metrics["seen"] for result in results] == [["A", "C"], ["B", "C"]]
    drawn = [[result.config["n"]["lr"] for result in grid] for grid in (first, results)]
    assert drawn[0] == drawn[1]
    later: Any = Tuner.restore(tmp_path / "run", _failing_).get_results()
    assert [result.config["table"].name for result in later] == ["A", "B"]


def test_values_that_json_brings_back_stay() -> None:
    old = {"a": 1, "b": tune.choice([1, 2]), "c": tune.choice(["x", Table("p")])}
    new = {"a": 9, "b": tune.choice([8, 9]), "c": tune.choice(["y", Table("q")])}
    assert renewed({"a": 1, "b": 2, "c": "x", "d": 0}, old, new) == {
        "a": 1, "b": 2, "c": "x", "d": 0,
    }  # fmt: skip
    assert renewed({"c": old["c"].categories[1]}, old, new)["c"].name == "q"
    stranger = Table("r")
    assert renewed({"c": stranger}, old, new)["c"] is stranger


def test_another_search_is_no_continuation(session: None, tmp_path: Path) -> None:
    space = {"a": 1, "b": {"c": tune.choice([0, 1])}}
    Tuner(_failing, param_space=space, run_config=_settings(tmp_path)).fit()
    for wrong in ({}, {"a": 1, "b": {}}, {"a": 1, "b": {"c": 1, "e": 2}}):
        with pytest.raises(ValueError, match=r"\['a', 'b/c'\]"):
            Tuner.restore(tmp_path / "run", _failing, param_space=wrong)
    for other in (print, "registered"):
        with pytest.raises(ValueError, match="'_failing'"):
            Tuner.restore(tmp_path / "run", other)
    Tuner.restore(tmp_path / "run", _failing, param_space=space)


def _saving_once_too_often(config: dict[str, Any]) -> None:
    before = tune.get_checkpoint()
    first = before.to_dict()["step"] + 1 if before else 0
    for step in range(first, first + 3):
        tune.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))
    if before is None:
        raise RuntimeError("the first time")


@pytest.mark.parametrize(("given", "kept"), [(None, [4, 5]), (3, [3, 4, 5])])
def test_a_search_that_goes_on_keeps_as_many_checkpoints(
    run: Run, given: int | None, kept: list[int]
) -> None:
    few = CheckpointConfig(num_to_keep=2)
    run(_saving_once_too_often, checkpoint_config=few, raise_on_failed_trial=False)
    config = CheckpointConfig(num_to_keep=given)
    (trial,) = run(_saving_once_too_often, resume="AUTO+ERRORED", checkpoint_config=config).trials
    assert [c.to_dict()["step"] for c, _ in trial.checkpoints.in_order] == kept


class Reluctant(tune.Trainable):
    """Cannot load at first."""

    def setup(self, config: dict[str, Any]) -> None:
        self.marks = Path(config["marks"])
        self.loaded = False

    def step(self) -> dict[str, Any]:
        if self.iteration == 2 and not self.loaded:
            raise RuntimeError("fails once")
        return {"made": len(list(self.marks.iterdir())), "done": self.iteration == 3}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        tried = len(list(self.marks.iterdir()))
        (self.marks / str(tried)).touch()
        if tried < 2:
            raise OSError("out of reach")
        self.loaded = True


@pytest.mark.parametrize(("retries", "status"), [("2", "TERMINATED"), ("1", "ERROR")])
def test_loading_is_tried_again(
    session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries: str, status: str
) -> None:
    monkeypatch.setenv("TUNE_RESTORE_RETRY_NUM", retries)
    (tmp_path / "marks").mkdir()
    settings = _settings(
        tmp_path,
        failure_config=FailureConfig(max_failures=1),
        checkpoint_config=CheckpointConfig(checkpoint_frequency=1),
    )
    space = {"marks": str(tmp_path / "marks")}
    grid = Tuner(Reluctant, param_space=space, run_config=settings).fit()
    assert [trial.status for trial in grid._experiment_analysis.trials] == [status]


def test_tables_without_lines_of_json(run: Run) -> None:
    def loop(config: dict[str, Any]) -> None:
        for step in range(3):
            tune.report({"step": step})

    analysis = run(loop)
    (trial,) = analysis.trials
    Path(trial.path, "result.json").unlink()
    (frame,) = analysis.fetch_trial_dataframes().values()
    assert list(frame["step"]) == [0, 1, 2]


def test_a_run_that_goes_on_gets_the_objects_of_the_config_that_is_given_again(
    session: None, tmp_path: Path
) -> None:
    def run(function: Any, names: str, **more: Any) -> tune.ExperimentAnalysis:
        space = {
            "table": tune.grid_search([Table(name) for name in names[:2]]),
            "other": Table(names[2]),
            "number": tune.uniform(0, 1),
        }
        settings: Any = {"name": "run", "storage_path": tmp_path, "verbose": 0}
        return tune.run(function, config=space, **settings, **more)

    first = run(_failing, "abc", raise_on_failed_trial=False)

    def _failing_(config: dict[str, Any]) -> dict[str, Any]:
        return {"seen": config["table"].name + config["other"].name}

    _failing_.__name__ = "_failing"
    again = run(_failing_, "ABC", resume="ERRORED")
    assert [trial.last_result["seen"] for trial in again.trials] == ["AC", "BC"]
    drawn = [[trial.config["number"] for trial in one.trials] for one in (first, again)]
    assert drawn[0] == drawn[1]
    stored = tune.ExperimentAnalysis(tmp_path / "run").trials
    assert [trial.config["table"].name for trial in stored] == ["A", "B"]
