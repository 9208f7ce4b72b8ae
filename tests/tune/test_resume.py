"""What schedulers know of a search that another program began; and that there is one at a time."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skate import tune
from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import RecordedCheckpoint
from skate._run.ledger import RunFolderInUseError
from skate.tune.experiment import Trial
from skate.tune.experiment.state_file import STATE_FILE
from skate.tune.schedulers import (
    PB2,
    HyperBandForBOHB,
    HyperBandScheduler,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    TrialScheduler,
)
from tests.support import Program
from tests.tune.fakes import FakeController

PAUSE, STOP = TrialScheduler.PAUSE, TrialScheduler.STOP
CONTINUE, NOOP = TrialScheduler.CONTINUE, TrialScheduler.NOOP


def taken_up(scheduler: TrialScheduler, before: FakeController, folder: Path) -> FakeController:
    """Another program with the same trials: what ran or was paused waits to run."""
    after = FakeController(scheduler, folder)
    for old in before.trials:
        trial = after.add_known(old.trial_id, old.status, **old.config)
        trial.take_history(before.history[old.trial_id])
        if old.latest_checkpoint_result is not None:
            trial.on_checkpoint(old.latest_checkpoint_result)
        scheduler.learn_from(trial, before.history[old.trial_id])
    return after


def names(trials: list[Trial]) -> list[str]:
    return [trial.trial_id for trial in trials]


class TestHyperBand:
    def make(self, kind=HyperBandScheduler):
        return kind(metric="score", mode="max", max_t=9, reduction_factor=3)

    def begun(self, tmp_path: Path, kind=HyperBandScheduler) -> FakeController:
        before = FakeController(self.make(kind), tmp_path)
        for number in range(17):
            before.add(f"{number:02}")
        return before

    def brackets(self, control: FakeController) -> list[tuple[list[str], int, int]]:
        found = control.scheduler._all_brackets()
        return [(names(b.trials()), b._until, b._halvings) for b in found if b.trials()]

    @pytest.mark.parametrize("kind", [HyperBandScheduler, HyperBandForBOHB])
    def test_brackets_are_as_they_were(self, tmp_path, kind):
        before = self.begun(tmp_path, kind)
        randomly = random.Random(3)
        for _ in range(60):
            waiting = before.scheduler.choose_trial_to_run(before)
            if waiting is None:
                break
            done = waiting.last_result.get("training_iteration", 0)
            before.report(waiting, training_iteration=done + 1, score=randomly.random())
            if waiting.status == Trial.RUNNING:
                waiting.set_status(Trial.PAUSED)
            after = taken_up(self.make(kind), before, tmp_path)
            nxt = after.scheduler.choose_trial_to_run(after)
            assert self.brackets(after) == self.brackets(before)
            expected = before.scheduler.choose_trial_to_run(before)
            assert (nxt and nxt.trial_id) == (expected and expected.trial_id)
        assert before.scheduler.state()["num_stopped"] > 5

    def test_who_was_waiting_waits_and_a_round_that_was_over_is_halved(self, tmp_path):
        before = self.begun(tmp_path)
        bracket = before.trials[3:8]
        for score, trial in enumerate(bracket[:-1]):
            assert before.report(trial, training_iteration=3, score=score) == PAUSE
        after = taken_up(self.make(), before, tmp_path)
        for trial in after.trials[:3] + after.trials[8:]:
            trial.set_status(Trial.RUNNING)
        assert after.scheduler.choose_trial_to_run(after).trial_id == "07"

        # killed when the last of the bracket had reported, and nobody had been told
        before.history["07"].append({"training_iteration": 3, "score": 9})
        after = taken_up(self.make(), before, tmp_path)
        assert after.scheduler.choose_trial_to_run(after) is not None
        alive = [trial.trial_id for trial in after.trials[3:8] if not trial.is_finished()]
        assert alive == ["06", "07"]

    def test_a_whole_bracket_that_was_done_is_ended(self, tmp_path):
        before = self.begun(tmp_path)
        for trial in before.trials[:3]:
            before.history[trial.trial_id].append({"training_iteration": 9, "score": 1})
        after = taken_up(self.make(), before, tmp_path)
        assert after.scheduler.choose_trial_to_run(after) is not None
        assert [trial.status for trial in after.trials[:3]] == [Trial.TERMINATED] * 3


class TestPopulations:
    def make(self, **options: Any) -> PopulationBasedTraining:
        settings = {
            "time_attr": "training_iteration", "metric": "score", "mode": "max",
            "perturbation_interval": 2, "resample_probability": 0,
            "hyperparam_mutations": {"lr": tune.uniform(0, 1)}, **options,
        }  # fmt: skip
        return PopulationBasedTraining(**settings)

    def begun(self, tmp_path: Path, scheduler: TrialScheduler, count: int = 4) -> FakeController:
        before = FakeController(scheduler, tmp_path)
        for number in range(count):
            before.add(f"t{number}", lr=0.1 * (number + 1))
        for trial in before.trials:
            trial.set_status(Trial.RUNNING)
        return before

    def test_a_bad_trial_is_changed_at_its_next_interval_and_not_before(self, tmp_path):
        before = self.begun(tmp_path, self.make())
        for step in (1, 2, 3):
            for score, trial in enumerate(before.trials):
                before.report(trial, training_iteration=step, score=score + step)
        after = taken_up(self.make(), before, tmp_path)
        for trial in after.trials:
            trial.set_status(Trial.RUNNING)
        worst = after.trials[0]
        assert after.scheduler.last_scores(after.trials) == [2, 3, 4, 5]
        assert after.report(worst, training_iteration=3, score=0) == CONTINUE
        assert after.report(worst, training_iteration=4, score=0) == NOOP
        assert worst.adopted == "checkpoint of t3"

    def test_tags_tell_of_the_last_change_only(self, tmp_path):
        scheduler = self.make()
        trial = Trial("f", trial_id="a", config={"lr": 1}, experiment_tag="0@perturbed[lr=1]")
        scheduler.on_trial_add(FakeController(scheduler, tmp_path), trial)
        assert scheduler._states["a"].original_tag == "0"

    def test_who_goes_on_from_another_is_as_far_as_that_one(self, tmp_path):
        before = self.begun(tmp_path, self.make(), 2)
        behind, ahead = before.trials
        before.report(behind, training_iteration=2, score=1)
        before.report(ahead, training_iteration=6, score=2)
        taken = {"training_iteration": 6, "score": 2, "trial_id": "t1"}
        behind.on_checkpoint(RecordedCheckpoint(Checkpoint("of the other"), taken))
        after = taken_up(self.make(), before, tmp_path)
        assert after.scheduler._states["t0"].last_train_time == 6
        after.trials[0].set_status(Trial.RUNNING)
        after.trials[1].set_status(Trial.RUNNING)
        assert after.report(after.trials[0], training_iteration=7, score=0) == CONTINUE

    def test_in_step_those_that_waited_wait(self, tmp_path):
        before = self.begun(tmp_path, self.make(synch=True))
        for step in (2, 4):
            for score, trial in enumerate(before.trials[: 4 if step == 2 else 3]):
                before.report(trial, training_iteration=step, score=score)
        due = before.scheduler._next_perturbation_sync
        after = taken_up(self.make(synch=True), before, tmp_path)
        assert after.scheduler._next_perturbation_sync == due == 4
        assert after.scheduler.choose_trial_to_run(after) is after.trials[3]
        assert after.report(after.trials[3], training_iteration=4, score=9) == PAUSE
        assert after.scheduler._num_perturbations == 1

    def test_bandits_learn_from_all_with_the_values_of_the_time(self, tmp_path):
        def bandits():
            return PB2("training_iteration", "score", "max", 1, {"lr": [0, 10]})

        before = self.begun(tmp_path, bandits())
        for step in (1, 2):
            for trial in before.trials:
                config = {"lr": float(step)}
                before.report(trial, training_iteration=step, score=step, config=config)
        before.trials[3].set_status(Trial.TERMINATED)
        after = taken_up(bandits(), before, tmp_path)
        assert sorted(after.scheduler._rows) == sorted(before.scheduler._rows)

    def test_a_replay_goes_on_in_its_schedule(self, tmp_path):
        rows = [["b", "c", 2, 2, {"lr": 1}, {"lr": 2}], ["a", "b", 4, 4, {"lr": 2}, {"lr": 3}]]
        policy = tmp_path / "policy.txt"
        policy.write_text("\n".join(json.dumps(row) for row in rows))
        before = FakeController(PopulationBasedTrainingReplay(str(policy)), tmp_path)
        trial = before.add("a")
        for step in (1, 2, 3):
            before.report(trial, training_iteration=step)
        after = taken_up(PopulationBasedTrainingReplay(str(policy)), before, tmp_path)
        (again,) = after.trials
        assert again.config == {"lr": 2}
        assert after.report(again, training_iteration=4) == NOOP
        assert again.config == {"lr": 3}


def climbing() -> type[tune.Trainable]:
    """By value: its workers do not have to import this module."""

    class Climbing(tune.Trainable):
        def setup(self, config):
            self.total = 0.0

        def step(self):
            self.total += self.config["x"]
            return {"score": self.total}

        def save_checkpoint(self, folder):
            Path(folder, "total").write_text(str(self.total))

        def load_checkpoint(self, folder):
            self.total = float(Path(folder, "total").read_text())

    return Climbing


def populations() -> PopulationBasedTraining:
    return PopulationBasedTraining(
        "training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"x": tune.uniform(0, 1)},
    )


@pytest.mark.parametrize("scheduler", [lambda: HyperBandScheduler(max_t=4), populations])
def test_searches_whose_books_were_cut_anywhere_come_to_their_end(run, tmp_path, scheduler):
    def search(**options: Any) -> Any:
        return run(
            climbing(), config={"x": tune.grid_search([n / 10 for n in range(8)])}, metric="score",
            mode="max", stop={"training_iteration": 4}, scheduler=scheduler(), **options,
        )  # fmt: skip

    whole = Path(search().experiment_path)
    size = (whole / STATE_FILE).stat().st_size
    for number, cut in enumerate(random.Random(5).sample(range(200, size), 5)):
        shutil.copytree(whole, copy := whole.with_name(f"cut_{number}"))
        with (copy / STATE_FILE).open("r+b") as file:
            file.truncate(cut)
        analysis = search(name=copy.name, resume=True)
        assert len(analysis.trials) == 8
        assert {trial.status for trial in analysis.trials} == {Trial.TERMINATED}
        lengths = [trial.last_result["training_iteration"] for trial in analysis.trials]
        assert max(lengths) <= 4


HOLDER = """
import sys
from skate import tune

class Waiting(tune.Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        print("begun", flush=True)
        sys.stdin.read()

def one(config):
    tune.report(loss=0)

tune.run(one, name="run", storage_path=sys.argv[1], verbose=0, callbacks=[Waiting()])
"""


def test_a_folder_has_one_search_at_a_time(run, tmp_path):
    def other(config):
        tune.report(loss=1)

    def again():
        space = {"x": tune.grid_search([1, 2])}
        config = tune.RunConfig(name="run", storage_path=str(tmp_path / "runs"))
        return tune.Tuner(other, param_space=space, run_config=config).fit()

    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "runs")]
    with Program(command, stdin=pipe, stdout=pipe) as holder:
        assert "begun" in holder.stdout.readline()
        state = tmp_path / "runs" / "run" / STATE_FILE
        before = state.read_bytes()
        for attempt in (again, lambda: run(other), lambda: run(other, resume="AUTO")):
            with pytest.raises(RunFolderInUseError, match="has not ended"):
                attempt()
        assert state.read_bytes() == before
        assert not (tmp_path / "runs" / "run" / "tuner.pkl").exists()
        holder.kill()
    assert len(again()) == 2
