"""What a search says on standard error: failures, odd values, how far it is, what it came to."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import skate
from skate import tune
from skate.tune import RunConfig, TuneConfig, Tuner
from skate.tune._live import LiveReporter
from skate.tune._overview import overview
from skate.tune.schedulers import PopulationBasedTraining


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(logging.getLogger("skate"), "level", logging.NOTSET)
    skate.init(engine="inline")
    yield
    skate.shutdown()


def search(function: Any, space: dict[str, Any], place: Any, **tuning: Any) -> Any:
    run = RunConfig(name="mine", storage_path=str(place), verbose=tuning.pop("verbose", None))
    return Tuner(
        function, param_space=space, tune_config=TuneConfig(**tuning), run_config=run
    ).fit()


def test_failed_trials_and_the_summary(tmp_path: Any, capsys: Any) -> None:
    def train(config: dict[str, Any]) -> dict[str, float]:
        if config["x"] == 2:
            raise ValueError("two is too much\nand more")
        return {"loss": config["x"] / 3}

    grid = search(train, {"x": tune.grid_search([1, 2, 3])}, tmp_path, metric="loss", mode="min")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    failed = next(trial for trial in grid._trials if trial.status == "ERROR")
    assert lines[0] == (
        f"skate: trial {failed} failed: ValueError: two is too much ({failed.error_file})"
    )
    assert lines[1] == "skate: mine: 1 trial failed"
    assert lines[2] == f"  {failed}: ValueError: two is too much"
    assert lines[3] == f"    {failed.error_file}"
    best = grid.get_best_result()
    assert lines[-2].startswith("skate: mine: 3 trials (2 ended, 1 failed) in ")
    assert lines[-2].endswith("x=1)")
    assert "; best loss 0.333 (" in lines[-2]
    assert best.config == {"x": 1}
    assert lines[-1] == f"skate: mine: results in {grid.experiment_path}"


def test_a_search_that_goes_on(tmp_path: Any, capsys: Any) -> None:
    def train(config: dict[str, Any]) -> dict[str, float]:
        if config["x"] == 2 and not (tmp_path / "again").exists():
            raise ValueError("not yet")
        return {"loss": config["x"]}

    grid = search(train, {"x": tune.grid_search([1, 2])}, tmp_path)
    (tmp_path / "again").touch()
    capsys.readouterr()
    Tuner.restore(grid.experiment_path, trainable=train, restart_errored=True).fit()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "skate: mine is taken up: 2 trials of before (1 over, 1 to begin)"
    assert lines[1].startswith("skate: mine: 2 trials (2 ended) in ")


def test_many_failures_get_few_lines(tmp_path: Any, capsys: Any) -> None:
    def train(config: dict[str, Any]) -> None:
        raise KeyError("always")

    grid = search(train, {}, tmp_path, num_samples=12)
    err = capsys.readouterr().err.splitlines()
    lines = [line for line in err if "trial train_" in line]
    assert len(lines) == 10
    assert lines[-1].endswith("; further failures are told at the end")
    assert err[10] == "skate: mine: 12 trials failed"
    assert err[11] == f"  12 trials, as {grid._trials[0]}: KeyError: 'always'"


def test_silence_when_asked_for(tmp_path: Any, capsys: Any) -> None:
    def train(config: dict[str, Any]) -> None:
        raise KeyError("always")

    search(train, {}, tmp_path, verbose=0)
    assert capsys.readouterr() == ("", "")


def test_not_a_number_decides(tmp_path: Any, capsys: Any) -> None:
    def train(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": float("nan")}

    search(train, {}, tmp_path, metric="loss", mode="min", num_samples=3)
    assert capsys.readouterr().err.count("reported loss=nan") == 1


def test_a_trial_that_never_reports(tmp_path: Any, capsys: Any) -> None:
    search(lambda config: None, {}, tmp_path, num_samples=3)
    assert capsys.readouterr().err.count("has ended without a result") == 1


def test_population_based_training_without_checkpoints(tmp_path: Any, capsys: Any) -> None:
    def train(config: dict[str, Any]) -> None:
        for _ in range(12):
            tune.report({"score": config["x"]})

    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"x": [1, 2, 3]},
    )
    search(
        train,
        {"x": tune.grid_search([1, 2, 3, 4])},
        tmp_path,
        metric="score",
        mode="max",
        scheduler=scheduler,
    )
    assert capsys.readouterr().err.count("without checkpoints nothing is perturbed") == 1


def test_a_line_now_and_then(tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("SKATE_PROGRESS_EVERY", "1e-9")

    def train(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": config["x"]}

    search(train, {"x": tune.grid_search([1.0, 2.0])}, tmp_path, metric="loss", mode="min")
    lines = [line for line in capsys.readouterr().err.splitlines() if "trials ended" in line]
    assert "/2 trials ended" in lines[-1]
    assert "; best loss 1 (" in lines[-1]


def test_a_wrong_setting(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("SKATE_PROGRESS_EVERY", "often")
    with pytest.raises(ValueError, match=r"SKATE_PROGRESS_EVERY takes a number.*got 'often'"):
        search(lambda config: {"loss": 1.0}, {}, tmp_path)


# -- tables ---------------------------------------------------------------------------------------


def many(tmp_path: Any) -> Any:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        if config["depth"] == 2:
            raise ValueError("too deep")
        return {"loss": config["lr"] / 7, "accuracy": 0.987654321, "note": "x" * 40}

    space = {
        "lr": tune.grid_search([1e-5, 0.12345678]),
        "depth": tune.grid_search([1, 2]),
        "optimizer_of_the_second_stage": tune.grid_search(["adam"]),
    }
    return search(train, space, tmp_path, metric="loss", mode="min", verbose=0)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_and_cuts_no_value(tmp_path: Any, width: int) -> None:
    table = overview(many(tmp_path)._trials, "loss", width)
    assert max(map(len, table.splitlines())) <= width
    assert "1.43e-6" in table
    assert "0.0176" in table
    assert "TERMINATED" in table
    assert "ValueError: too deep" in table
    assert " 00003 " in table
    if width == 120:
        assert "optimizer_of_the_second_stage" in table


def test_what_grids_and_analyses_show(tmp_path: Any) -> None:
    grid = many(tmp_path)
    for shown in (repr(grid), repr(grid._experiment_analysis)):
        first, *table, last = shown.splitlines()
        assert str(tmp_path) in first
        assert last == ">"
        assert len(table) == 4 + 4
        assert "1e-5" in shown


def test_a_live_table_on_a_narrow_terminal(tmp_path: Any) -> None:
    from io import StringIO

    from rich.console import Console

    reporter = LiveReporter()
    reporter.setup(metric="loss", mode="min")
    console = Console(file=StringIO(), width=80)
    console.print(reporter._drawing(many(tmp_path)._trials, width=80))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1.43e-6" in text
    assert "TERMINATED" in text
    assert "…" not in text.split("status")[1]
