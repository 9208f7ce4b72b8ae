"""`skate list datasets|trials|deployments`: what libraries have under way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import serve, tune
from skate.cli import main
from skate.engine.sessions import Session, sessions
from tests.support import Flag, eventually


@pytest.fixture
def session() -> Any:
    with skate.init(num_cpus=2):
        yield next(one for one in sessions() if one.pid == os.getpid())


def test_datasets(session: Session) -> None:
    before = {row["dataset"] for row in session.rows("datasets")}  # that another test has kept
    dataset = skate.data.range(100).map_batches(lambda batch: batch)
    batches = dataset.iter_batches(batch_size=10)
    next(iter(batches))
    rows = [row for row in session.rows("datasets") if row["dataset"] not in before]
    (row,) = [row for row in rows if "MapBatches" in row["operator"]]
    assert row["rows"] >= 10
    assert row["session"] == os.getpid()
    del batches
    assert dataset.materialize().count() == 100
    assert "FINISHED" in {row["state"] for row in session.rows("datasets")}


def test_trials(session: Session, tmp_path: Path) -> None:
    """While they run: the trial itself asks, from its worker."""
    pid, reported = os.getpid(), Flag(tmp_path / "reported")

    def trial(config: dict[str, Any]) -> None:
        tune.report({"loss": config["x"]})
        (one,) = [one for one in sessions() if one.pid == pid]

        def shown() -> bool:
            rows = one.rows("trials")  # another test may have kept some
            return any(row["state"] == "RUNNING" and row.get("loss") == 3 for row in rows)

        eventually(shown)
        reported.set()

    run = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    tune.Tuner(trial, param_space={"x": tune.grid_search([3])}, run_config=run).fit()
    assert reported.is_set()


def _listed(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    with pytest.raises(SystemExit):
        main(["list", "deployments", "--session", str(os.getpid()), "--json"])
    found: list[Any] = json.loads(capsys.readouterr().out)
    return found


def test_deployments(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    @serve.deployment
    class Answering:
        def __call__(self) -> str:
            return "here"

    serve.start(http_options={"location": "NoServer"})
    try:
        handle = serve.run(Answering.bind(), name="app", route_prefix=None)
        (row,) = _listed(capsys)
        assert (row["application"], row["deployment"]) == ("app", "Answering")
        assert (row["state"], row["replicas"]) == ("HEALTHY", {"RUNNING": 1})
        assert (row["answered"], row["mean_s"], row["p99_s"]) == (0, None, None)
        for _ in range(3):
            handle.remote().result()
        (row,) = _listed(capsys)
        assert row["answered"] == 3
        assert 0 < row["p50_s"] <= row["p90_s"] <= row["p99_s"]
        assert row["mean_s"] > 0
    finally:
        serve.shutdown()
