"""Several experiments in one search: side by side, one after the other, taken up again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skate import tune
from skate.tune.schedulers import AsyncHyperBandScheduler
from tests.support import eventually

Config = dict[str, Any]


def last(analysis: tune.ExperimentAnalysis) -> list[Any]:
    return [trial.last_result for trial in analysis.trials]


def square(config: Config) -> None:
    for step in range(4):
        tune.report({"loss": (config["x"] - 2) ** 2, "step": step})


class Counter(tune.Trainable):
    """Adds `by` in each step."""

    def setup(self, config: Config) -> None:
        self.value, self.by = 0, config["by"]

    def step(self) -> Config:
        self.value += self.by
        return {"value": self.value}


def test_several_experiments(session: None, tmp_path: Path) -> None:
    trials = tune.run_experiments(
        {
            "one": {"run": square, "config": {"x": 1}, "storage_path": tmp_path},
            "two": {"run": Counter, "config": {"by": 1}, "stop": {"value": 2},
                    "storage_path": tmp_path, "num_samples": 2},
        },
        verbose=0,
    )  # fmt: skip
    assert [trial.status for trial in trials] == ["TERMINATED"] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_a_list_of_experiments(session: None, tmp_path: Path) -> None:
    one = tune.Experiment("one", square, config={"x": 1}, storage_path=tmp_path)
    two = tune.Experiment("two", lambda config: {"loss": 7}, storage_path=tmp_path)
    scheduler = AsyncHyperBandScheduler()
    analysis = tune.run([one, two], metric="loss", mode="min", scheduler=scheduler, verbose=0)
    assert [result["loss"] for result in last(analysis)] == [1, 7]
    assert [trial.experiment_dir_name for trial in analysis.trials] == ["one", "two"]
    assert analysis.best_config == {"x": 1}


def test_trials_of_several_experiments_run_side_by_side(session: None, tmp_path: Path) -> None:
    def meeting(config: Config) -> Config:
        here = Path(config["folder"], config["name"])
        here.touch()
        eventually(Path(config["folder"], config["other"]).exists)
        return {"name": config["name"]}

    def wanted(name: str, other: str) -> Config:
        return {
            "run": meeting,
            "config": {"folder": str(tmp_path), "name": name, "other": other},
            "storage_path": tmp_path,
        }

    experiments = {"one": wanted("a", "b"), "two": wanted("b", "a")}
    trials = tune.run_experiments(experiments, verbose=0)
    assert [trial.last_result["name"] for trial in trials] == ["a", "b"]
    stored = [tune.ExperimentAnalysis(tmp_path / name).trials for name in ("one", "two")]
    assert [[trial.trial_id for trial in found] for found in stored] == [
        [trials[0].trial_id], [trials[1].trial_id]
    ]  # fmt: skip


def test_experiments_that_are_not_concurrent_run_one_after_the_other(
    session: None, tmp_path: Path
) -> None:
    def noting(config: Config) -> Config:
        others = sorted(path.name for path in tmp_path.glob("*.txt"))
        (tmp_path / f"{config['name']}.txt").touch()
        return {"others": others}

    def wanted(name: str) -> Config:
        return {
            "run": noting,
            "config": {"name": name},
            "num_samples": 2,
            "storage_path": tmp_path,
        }

    trials = tune.run_experiments(
        {"one": wanted("a"), "two": wanted("b")}, concurrent=False, verbose=0
    )
    assert all("b.txt" not in trial.last_result["others"] for trial in trials[:2])
    assert all("a.txt" in trial.last_result["others"] for trial in trials[2:])


def test_each_of_several_experiments_ends_as_it_says(session: None, tmp_path: Path) -> None:
    def limited(name: str, **stop: Any) -> tune.Experiment:
        return tune.Experiment(
            name, Counter, config={"by": 1}, storage_path=tmp_path, num_samples=2, **stop
        )

    short, long = limited("short", stop={"value": 2}), limited("long", stop={"value": 5})
    analysis = tune.run([short, long], verbose=0)
    assert [result["value"] for result in last(analysis)] == [2, 2, 5, 5]


def test_experiments_in_one_folder_go_on_together(session: None, tmp_path: Path) -> None:
    class Ending(tune.Callback):
        def on_step_end(self, iteration: int, trials: Any, **info: Any) -> None:
            if len(trials) >= 4:
                raise RuntimeError("enough")

    def experiments() -> list[tune.Experiment]:
        space = {"x": tune.grid_search([1, 2, 3])}
        return [
            tune.Experiment("both", square, config=space, storage_path=tmp_path) for _ in range(2)
        ]

    with pytest.raises(RuntimeError, match="enough"):
        tune.run(experiments(), callbacks=[Ending()], verbose=0)
    analysis = tune.run(experiments(), resume=True, verbose=0)
    assert sorted(trial.config["x"] for trial in analysis.trials) == [1, 1, 2, 2, 3, 3]
    assert len({trial.path for trial in analysis.trials}) == 6
    assert len(tune.ExperimentAnalysis(tmp_path / "both").trials) == 6


def gridded(name: str, values: list[int], folder: Path) -> tune.Experiment:
    space = {"x": tune.grid_search(values)}
    return tune.Experiment(name, square, config=space, storage_path=folder)


def test_what_is_taken_up_of_one_experiment_is_not_taken_from_another(
    session: None, tmp_path: Path
) -> None:
    def ran(*experiments: tune.Experiment, **more: Any) -> list[tuple[str, int]]:
        trials = tune.run_experiments(list(experiments), verbose=0, **more)
        assert len({trial.trial_id for trial in trials}) == len(trials)
        return sorted((trial.experiment_dir_name, trial.config["x"]) for trial in trials)

    ran(gridded("b", [10, 11], tmp_path))
    both = [gridded("a", [0, 1], tmp_path), gridded("b", [10, 11, 12], tmp_path)]
    expected = [("a", 0), ("a", 1), ("b", 10), ("b", 11), ("b", 12)]
    assert ran(*both, resume="AUTO") == expected
    longer = gridded("b", [10, 11, 12, 13, 14, 15], tmp_path)
    assert ran(longer, resume=True) == [("b", x) for x in (10, 11, 12, 13, 14, 15)]


def counting(config: Config) -> None:
    if config["x"] in (2, 3) and not Path(config["go"]).exists():
        raise RuntimeError("not yet")
    for step in range(6):
        checkpoint = tune.Checkpoint.from_dict({"step": step})
        tune.report({"step": step}, checkpoint=checkpoint)


def twins(folder: Path) -> list[tune.Experiment]:
    """Make experiments that differ in everything but their folder and function."""

    def made(values: list[int], steps: int) -> tune.Experiment:
        space = {"x": tune.grid_search(values), "go": str(folder / "go")}
        return tune.Experiment(
            "twins", counting, config=space, stop={"training_iteration": steps},
            storage_path=folder, checkpoint_config=tune.CheckpointConfig(num_to_keep=steps - 1),
        )  # fmt: skip

    return [made([0, 1], 2), made([2, 3], 4)]


def test_a_trial_goes_on_in_its_own_experiment_of_those_with_one_function(
    session: None, tmp_path: Path
) -> None:
    tune.run(twins(tmp_path), verbose=0, raise_on_failed_trial=False)
    (tmp_path / "go").touch()
    analysis = tune.run(twins(tmp_path), resume="ERRORED", verbose=0)
    steps = {t.config["x"]: t.last_result["training_iteration"] for t in analysis.trials}
    assert steps == {0: 2, 1: 2, 2: 4, 3: 4}
    kept = {trial.config["x"]: len(trial.checkpoints.in_order) for trial in analysis.trials}
    assert kept == {0: 1, 1: 1, 2: 3, 3: 3}


def test_an_experiment_that_is_not_given_again_is_missed(session: None, tmp_path: Path) -> None:
    tune.run(twins(tmp_path), verbose=0, raise_on_failed_trial=False)
    with pytest.raises(ValueError, match=r"2 experiments of 'counting'.* 1 was given.*same order"):
        tune.run(twins(tmp_path)[:1], resume=True, verbose=0)


class Table:
    """Stands for something that lives in one session only."""

    def __init__(self, name: str) -> None:
        self.name = name


def naming(config: Config) -> Config:
    if not Path(config["go"]).exists():
        raise RuntimeError("not yet")
    return {"seen": config["table"].name}


def other_naming(config: Config) -> Config:
    return naming(config)


def tabled(run: Any, name: str, folder: Path, experiment: str = "one") -> tune.Experiment:
    space = {"table": tune.grid_search([Table(name)]), "go": str(folder / "go")}
    return tune.Experiment(experiment, run, config=space, storage_path=folder)


def seen(experiments: list[tune.Experiment], **more: Any) -> list[str]:
    analysis = tune.run(experiments, verbose=0, raise_on_failed_trial=False, **more)
    return [result.get("seen") for result in last(analysis)]


def test_experiments_in_one_folder_get_their_own_objects_again(
    session: None, tmp_path: Path
) -> None:
    def three(names: str) -> list[tune.Experiment]:
        runs = (naming, other_naming, naming)
        return [tabled(run, name, tmp_path) for run, name in zip(runs, names, strict=True)]

    seen(three("abc"))
    (tmp_path / "go").touch()
    assert seen(three("ABC"), resume="ERRORED") == ["A", "B", "C"]


def test_what_was_refused_can_be_taken_up_with_other_objects(
    session: None, tmp_path: Path
) -> None:
    def two(names: str, second: Any = other_naming) -> list[tune.Experiment]:
        first = tabled(naming, names[0], tmp_path)
        return [first, tabled(second, names[1], tmp_path, experiment="two")]

    seen(two("ab"))
    (tmp_path / "go").touch()
    with pytest.raises(ValueError, match="cannot go on with 'naming'"):
        seen(two("yz", second=naming), resume="ERRORED")
    assert seen(two("AB"), resume="ERRORED") == ["A", "B"]
