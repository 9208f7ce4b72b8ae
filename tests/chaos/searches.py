"""Searches that are killed and restored: `python -m tests.chaos.searches 200` kills 200 times.

A program searches with trials that report and save at each step. It, one of its trials or all of
its processes are killed at random moments, and it is run again until it ends by itself. Then all
trials have ended, with each step reported once and with the value that it has undisturbed; those
that had been decided when a program died are what they were; few steps were computed twice; and
nothing is left that was half done.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import skate
from skate import train, tune
from skate._run.storage import Storage
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.tune.execution.warm_start import PastTrial, past_trials
from skate.tune.schedulers import ASHAScheduler, HyperBandScheduler, PopulationBasedTraining
from tests.chaos.kills import KilledProgram, kill_many
from tests.support import Tally, handle_signals_as_usual

TRIALS, STEPS, WORKERS = 6, 6, 2
KINDS = ("asha", "pbt", "hyperband", "trainer")


def value(x: float, before: float) -> float:
    """What a step makes of what the steps before have come to."""
    return 0.5 * before + x


def undisturbed(x: float, step: int) -> float:
    """What a trial has come to after so many steps that nobody has disturbed."""
    found = 0.0
    for _ in range(step):
        found = value(x, found)
    return found


# -- the program ----------------------------------------------------------------------------------


def search(folder: Path, kind: str) -> None:
    """What the program does: begin the search, or go on with it."""
    skate.init(num_cpus=WORKERS)
    tally = Tally(folder / "tally")

    def objective(config: dict[str, Any]) -> None:
        report = train.report if kind == "trainer" else tune.report
        checkpoint = (train if kind == "trainer" else tune).get_checkpoint()
        state = checkpoint.to_dict() if checkpoint is not None else {"step": 0, "score": 0.0}
        for step in range(state["step"] + 1, STEPS + 1):
            tally.add(f"{config['number']}-{step}")
            time.sleep(0.02)
            state = {"step": step, "score": value(config["x"], state["score"])}
            saved = train.Checkpoint.from_dict(state)
            report({"step": step, "score": state["score"]}, checkpoint=saved)

    path = folder / "runs" / "search"
    trainable = _trainable(objective, kind)
    if tune.Tuner.can_restore(str(path)):
        tuner = tune.Tuner.restore(str(path), trainable=trainable, resume_errored=True)
    else:
        tuner = _new_tuner(trainable, kind, path)
    tuner.fit()


def _trainable(objective: Any, kind: str) -> Any:
    if kind != "trainer":
        return objective
    return DataParallelTrainer(
        objective,
        scaling_config=train.ScalingConfig(num_workers=1, resources_per_worker={"CPU": 1}),
    )


def _new_tuner(trainable: Any, kind: str, path: Path) -> tune.Tuner:
    space: dict[str, Any] = {
        "number": tune.grid_search(list(range(TRIALS))),
        "x": tune.sample_from(lambda spec: 1.0 + spec["config"]["number"]),
    }
    if kind == "trainer":
        x = tune.sample_from(lambda spec: 1.0 + spec["config"]["train_loop_config"]["number"])
        space = {"train_loop_config": {**space, "x": x}}
    schedulers: dict[str, Any] = {
        "asha": ASHAScheduler(max_t=STEPS, reduction_factor=2),
        "hyperband": HyperBandScheduler(max_t=STEPS, reduction_factor=2),
        "pbt": PopulationBasedTraining(
            "training_iteration",
            perturbation_interval=2,
            hyperparam_mutations={"x": tune.uniform(1, TRIALS)},
        ),
    }
    return tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=schedulers.get(kind)),
        run_config=train.RunConfig(
            storage_path=str(path.parent),
            name=path.name,
            verbose=0,
            failure_config=train.FailureConfig(max_failures=-1),
        ),
    )


# -- who kills it ---------------------------------------------------------------------------------


class KilledSearch(KilledProgram):
    """A search, the kills that it has survived, and what it has done."""

    def __init__(self, folder: Path, kind: str, chance: random.Random) -> None:
        super().__init__(
            ["-m", "tests.chaos.searches", "--search", str(folder), kind],
            Tally(folder / "tally"),
            chance,
            title="Worker",
            most_steps=8,
        )
        self.folder = folder
        self.kind = kind
        self._decided: dict[str, PastTrial] = {}

    @property
    def path(self) -> Path:
        """The folder of the search."""
        return self.folder / "runs" / "search"

    def run_once(self, kills: int) -> bool:
        ended = super().run_once(kills)
        self._note_decided()
        return ended

    def _note_decided(self) -> None:
        """Whatever has ended must be the same for ever."""
        now = self._trials()
        for name, trial in self._decided.items():
            assert now[name] == trial, f"{name} was {trial} and is {now[name]}"
        self._decided = {n: t for n, t in now.items() if t.status in ("TERMINATED", "ERROR")}

    def _trials(self) -> dict[str, PastTrial]:
        if not self.path.exists():
            return {}
        trials = past_trials(Storage.at(str(self.path)))
        return {trial.trial_id: trial for trial in trials}

    def check(self) -> None:
        trials = self._trials()
        assert len(trials) == TRIALS
        assert {trial.status for trial in trials.values()} == {"TERMINATED"}
        folders = [path for path in self.path.iterdir() if path.is_dir()]
        assert len(folders) == TRIALS, folders
        if self.kind != "pbt":  # whose trials go on as others
            numbers = [_config(trial.config)["number"] for trial in trials.values()]
            assert sorted(numbers) == list(range(TRIALS))
            for folder in folders:
                self._check_results(folder)
        half_done = [
            path for path in self.path.rglob("*") if path.suffix in (".draft", ".replaced")
        ]
        assert not half_done, half_done
        self._check_repetitions()

    def _check_results(self, folder: Path) -> None:
        rows = [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]
        config = _config(rows[0]["config"])
        steps = [row["step"] for row in rows]
        assert steps == [row["training_iteration"] for row in rows] == [*range(1, len(rows) + 1)]
        assert self.kind != "trainer" or len(rows) == STEPS
        assert [row["score"] for row in rows] == [undisturbed(config["x"], step) for step in steps]

    def _check_repetitions(self) -> None:
        """Each kill may cost each trial that ran the step that it was in, and the one whose report
        was on its way."""
        if self.kind != "pbt":
            begun = Counter(self.tally.words())
            again = sum(begun.values()) - len(begun)
            assert again <= 2 * self.kills * WORKERS, f"{again} again after {self.kills} kills"


def _config(config: Any) -> Any:
    return config.get("train_loop_config", config)


if __name__ == "__main__":
    handle_signals_as_usual()
    if sys.argv[1:2] == ["--search"]:
        search(Path(sys.argv[2]), sys.argv[3])
    else:
        kill_many(str(__doc__), "--searches", KINDS, KilledSearch)
