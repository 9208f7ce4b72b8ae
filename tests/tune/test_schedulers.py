"""The decisions of schedulers on recorded traces, without a process."""

import json
import random
import statistics

import pytest

from skate import tune
from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import RecordedCheckpoint
from skate.tune.execution.launch import make_scheduler
from skate.tune.experiment import Trial
from skate.tune.schedulers import (
    PB2,
    AsyncHyperBandScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
    create_scheduler,
)
from skate.tune.schedulers.resource_changing_scheduler import (
    DistributeResources,
    DistributeResourcesToTopJob,
)
from tests.tune.fakes import FakeController

CONTINUE, STOP, PAUSE, NOOP = "CONTINUE", "STOP", "PAUSE", "NOOP"


@pytest.fixture
def controller(tmp_path):
    return lambda scheduler, **options: FakeController(scheduler, tmp_path, **options)


class TestASHA:
    def make(self, controller, **options):
        defaults = {"metric": "loss", "mode": "min", "max_t": 9, "reduction_factor": 3}
        return controller(AsyncHyperBandScheduler(**{**defaults, **options}))

    def decisions(self, control, trace):
        trials = {name: control.add(name) for name in dict.fromkeys(name for name, _, _ in trace)}
        return [
            control.report(trials[name], training_iteration=t, loss=loss)
            for name, t, loss in trace
        ]

    def test_the_first_at_a_rung_goes_on_and_worse_ones_stop(self, controller):
        trace = [("a", 1, 5), ("b", 1, 6), ("c", 1, 4), ("d", 1, 4.8)]
        assert self.decisions(self.make(controller), trace) == [CONTINUE, STOP, CONTINUE, STOP]

    def test_between_rungs_nothing_is_decided(self, controller):
        trace = [("a", 1, 1), ("a", 2, 100), ("b", 1, 0), ("b", 2, 100), ("b", 3, 100)]
        assert set(self.decisions(self.make(controller), trace)) == {CONTINUE}

    def test_all_end_at_max_t_unless_told_otherwise(self, controller):
        assert self.decisions(self.make(controller), [("a", 9, 1)]) == [STOP]
        late = self.make(controller, stop_last_trials=False)
        assert self.decisions(late, [("a", 9, 1), ("a", 10, 1)]) == [CONTINUE, CONTINUE]

    def test_more_is_better_with_max(self, controller):
        control = self.make(controller, mode="max")
        assert self.decisions(control, [("a", 1, 5), ("b", 1, 6), ("c", 1, 4)])[2] == STOP

    def test_nan_does_not_poison_a_rung(self, controller):
        trace = [("a", 1, float("nan")), ("b", 1, 5), ("c", 1, 4)]
        assert self.decisions(self.make(controller), trace) == [CONTINUE] * 3

    def test_results_without_the_metric_are_passed_over(self, controller):
        control = self.make(controller)
        assert control.report(control.add("a"), training_iteration=1) == CONTINUE

    def test_the_cutoff_is_numpys_percentile(self, controller):
        import numpy as np

        from skate.tune.schedulers.async_hyperband import Rung

        rung, values = Rung(1), [3.0, 1.0, 4.0, 1.5, 9.0, 2.6]
        for number, value in enumerate(values):
            rung.add(str(number), value)
        assert rung.cutoff(4) == pytest.approx(np.percentile(values, 75))

    def test_state_is_saved_and_restored(self, controller, tmp_path):
        control = self.make(controller)
        self.decisions(control, [("a", 1, 5)])
        control.scheduler.save(str(tmp_path / "state"))
        other = AsyncHyperBandScheduler()
        other.restore(str(tmp_path / "state"))
        again = controller(other)
        assert again.report(again.add("b"), training_iteration=1, loss=6) == STOP

    @pytest.mark.parametrize(
        "wrong",
        [{"max_t": 0}, {"grace_period": 200}, {"reduction_factor": 1}, {"brackets": 0},
         {"mode": "up"}],
    )  # fmt: skip
    def test_impossible_settings(self, wrong):
        with pytest.raises(ValueError, match=r"max_t|takes"):
            AsyncHyperBandScheduler(**wrong)

    def test_no_metric_is_an_error_that_says_where_to_give_it(self, controller):
        with pytest.raises(ValueError, match="TuneConfig"):
            controller(AsyncHyperBandScheduler()).add("a")

    def test_brackets(self, controller):
        scheduler = AsyncHyperBandScheduler(
            metric="loss", mode="min", max_t=9, reduction_factor=3, brackets=2
        )
        assert [[rung.milestone for rung in b.rungs] for b in scheduler._brackets] == [
            [9, 3, 1], [9, 3]
        ]  # fmt: skip


class TestMedian:
    def test_the_trial_below_the_median_stops(self, controller):
        control = controller(
            MedianStoppingRule(
                "training_iteration", "acc", "max", grace_period=2, min_samples_required=2
            )
        )
        good, better, bad = (control.add(name) for name in "abc")
        for t in (1, 2, 3):
            assert control.report(good, training_iteration=t, acc=10) != STOP
            assert control.report(better, training_iteration=t, acc=20) != STOP
        assert control.report(bad, training_iteration=1, acc=1) == CONTINUE
        assert control.report(bad, training_iteration=2, acc=1) == STOP

    def test_trials_of_an_earlier_program_count(self, controller):
        scheduler = MedianStoppingRule(
            "training_iteration", "acc", "max", grace_period=2, min_samples_required=2
        )
        control = controller(scheduler)
        for name in "ab":
            past = Trial("fake", trial_id=name)
            scheduler.learn_from(past, ({"training_iteration": t, "acc": 10} for t in (1, 2, 3)))
        assert control.report(control.add("c"), training_iteration=2, acc=1) == STOP

    def test_a_result_that_is_no_number_is_passed_over(self, controller):
        control = controller(
            MedianStoppingRule(
                "training_iteration", "acc", "max", grace_period=1, min_samples_required=1
            )
        )
        good, bad = control.add("a"), control.add("b")
        for t, value in enumerate((9, float("nan"), 9), start=1):
            control.report(good, training_iteration=t, acc=value)
        assert control.report(bad, training_iteration=3, acc=1) == STOP

    @pytest.mark.parametrize("as_time", [int, float])
    def test_it_decides_as_the_rule_says(self, controller, as_time):
        """Steps have books of their own; they must say what the histories say."""
        rule = MedianStoppingRule("t", "acc", "max", grace_period=2, min_samples_required=3)
        control = controller(rule)
        draw = random.Random(3)
        trials = [control.add(str(number)) for number in range(12)]
        past = {trial: [] for trial in trials}
        for t in range(1, 12):
            for trial in draw.sample(trials, len(trials)):
                if trial.is_finished() or draw.random() < 0.1:
                    continue
                value = draw.choice([draw.random(), draw.random(), float("nan")])
                past[trial].append((t, value))
                expected = self.decided(past, trial, t)
                assert (control.report(trial, t=as_time(t), acc=value) == STOP) is expected
        assert 0 < sum(trial.is_finished() for trial in trials) < 12

    def decided(self, past, trial, t):
        known = {
            other: [v for time, v in rows if 2 <= time <= t and v == v]
            for other, rows in past.items()
            if other is not trial and rows and rows[-1][0] >= t
        }
        means = [sum(values) / len(values) for values in known.values() if values]
        best = max((v for _, v in past[trial] if v == v), default=float("-inf"))
        return t >= 2 and len(means) >= 3 and best < statistics.median(means)

    def test_soft_stops_are_pauses_and_once_only(self, controller):
        control = controller(
            MedianStoppingRule(
                "training_iteration", "acc", "max", grace_period=1, min_samples_required=1,
                hard_stop=False,
            )
        )  # fmt: skip
        good, bad = control.add("a"), control.add("b")
        control.report(good, training_iteration=1, acc=9)
        control.report(good, training_iteration=5, acc=9)
        assert control.report(bad, training_iteration=1, acc=1) == PAUSE
        assert control.report(bad, training_iteration=2, acc=1) == CONTINUE

    def test_with_too_few_samples_a_trial_gives_way_to_waiting_ones(self, controller):
        control = controller(
            MedianStoppingRule("training_iteration", "acc", "max", grace_period=1)
        )
        running = control.add("a")
        assert control.report(running, training_iteration=1, acc=1) == CONTINUE
        control.add("b")
        assert control.report(running, training_iteration=2, acc=1) == PAUSE


class TestHyperBand:
    def make(self, controller, kind=HyperBandScheduler, **options):
        settings = {"metric": "score", "mode": "max", "max_t": 9, "reduction_factor": 3, **options}
        return controller(kind(**settings))

    def test_brackets_that_are_over_are_forgotten(self, controller):
        control = self.make(controller)
        trials = [control.add(str(number)) for number in range(40)]
        assert len(control.scheduler._all_brackets()) > 5
        for trial in trials[:-1]:
            control.stop_trial(trial)
        assert control.scheduler.choose_trial_to_run(control) is trials[-1]
        assert len(control.scheduler._all_brackets()) == 1

    def test_brackets_are_filled_one_after_the_other(self, controller):
        control = self.make(controller)
        for number in range(17 + 3):
            control.add(str(number))
        sizes = [len(bracket.trials()) for bracket in control.scheduler._all_brackets()]
        assert sizes == [3, 5, 9, 3]
        assert control.scheduler.state() == {"num_brackets": 4, "num_stopped": 0}

    def test_a_bracket_is_halved_when_all_are_there(self, controller):
        control = self.make(controller)
        trials = [control.add(f"{number:02}") for number in range(8)][3:]  # the bracket s=1
        decisions = [
            control.report(trial, training_iteration=3, score=number)
            for number, trial in enumerate(trials)
        ]
        assert decisions == [PAUSE, PAUSE, PAUSE, PAUSE, CONTINUE]
        states = [trial.status for trial in trials]
        assert states == [Trial.TERMINATED] * 3 + [Trial.PAUSED, Trial.RUNNING]
        for trial in control.trials[:3]:
            trial.set_status(Trial.RUNNING)
        assert control.scheduler.choose_trial_to_run(control) is trials[3]
        assert control.report(trials[3], training_iteration=9, score=1) == PAUSE
        assert control.report(trials[4], training_iteration=9, score=2) == STOP
        assert trials[3].status == Trial.TERMINATED

    def test_who_fails_is_not_waited_for(self, controller):
        control = self.make(controller)
        trials = [control.add(f"{number:02}") for number in range(8)][3:]
        for number, trial in enumerate(trials[:4]):
            control.report(trial, training_iteration=3, score=number)
        trials[4].set_status(Trial.ERROR)
        control.scheduler.on_trial_error(control, trials[4])
        assert [t.status for t in trials[:4]] == [Trial.TERMINATED] * 2 + [Trial.PAUSED] * 2

    def test_who_is_further_than_the_next_round_does_not_wait_for_it(self, controller):
        control = self.make(controller)
        trials = [control.add(f"{number:02}") for number in range(17)][8:]  # the bracket s=2
        for number, trial in enumerate(trials[:-1]):
            assert control.report(trial, training_iteration=1, score=number) == PAUSE
        # begun again from a checkpoint of a bracket with longer rounds
        assert control.report(trials[-1], training_iteration=4, score=9) == PAUSE
        assert [t.status for t in trials[6:]] == [Trial.PAUSED] * 3
        assert control.report(trials[6], training_iteration=3, score=0) == PAUSE
        assert control.report(trials[7], training_iteration=3, score=1) == STOP
        assert trials[6].status == Trial.TERMINATED
        for trial in control.trials[:8]:
            trial.set_status(Trial.RUNNING)
        assert control.scheduler.choose_trial_to_run(control) is trials[-1]

    def test_alone_and_further_than_all_rounds_but_the_last(self, controller):
        control = self.make(controller)
        alone = [control.add(f"{number:02}") for number in range(9)][8]
        assert control.report(alone, training_iteration=4, score=1) == CONTINUE
        assert control.report(alone, training_iteration=9, score=1) == STOP

    def test_who_fails_at_the_end_of_a_round_runs_again(self, controller):
        control = self.make(controller)
        trials = [control.add(f"{number:02}") for number in range(5)]
        for number, trial in enumerate(trials[3:]):
            assert control.report(trial, training_iteration=3, score=number) == (
                CONTINUE if number else PAUSE
            )
        failed = trials[4]
        control.scheduler.on_trial_error(control, failed)
        failed.set_status(Trial.PENDING)
        control.scheduler.on_trial_add(control, failed)
        for trial in trials[:4]:
            trial.set_status(Trial.RUNNING)
        assert control.scheduler.choose_trial_to_run(control) is failed

    def test_for_bohb_the_largest_bracket_is_first_and_results_have_a_budget(self, controller):
        control = self.make(controller, HyperBandForBOHB)
        first, second = control.add("a"), control.add("b")
        result = {"training_iteration": 1, "score": 3}
        first.set_status(Trial.RUNNING)
        assert control.scheduler.on_trial_result(control, first, result) == PAUSE
        assert result["hyperband_info"] == {"budget": 1}
        first.set_status(Trial.PAUSED)
        assert control.report(second, training_iteration=1, score=2) == PAUSE
        # nobody else comes: what there is of the bracket goes on
        assert control.scheduler.choose_trial_to_run(control) in (first, second)

    def test_for_bohb_each_bracket_takes_its_trials_once(self, controller):
        control = self.make(controller, HyperBandForBOHB)
        budgets = []
        for number in range(9 + 5 + 3 + 9):  # one after the other
            trial = control.add(str(number))
            bracket = control.scheduler._bracket_of[trial.trial_id]
            budgets.append(bracket._until)
            control.stop_trial(trial)
        assert budgets == [1] * 9 + [3] * 5 + [9] * 3 + [1] * 9

    def test_bohb_halves_no_bracket_that_is_not_filled(self, controller):
        control = self.make(controller, HyperBandForBOHB)
        good, bad, failed = (control.add(name) for name in "abc")
        assert control.report(good, training_iteration=1, score=3) == PAUSE
        assert control.report(bad, training_iteration=1, score=2) == PAUSE
        failed.set_status(Trial.ERROR)
        control.scheduler.on_trial_error(control, failed)
        assert (good.status, bad.status) == (Trial.PAUSED, Trial.PAUSED)
        assert control.scheduler.state()["num_stopped"] == 0
        assert not control.scheduler._bracket_of["a"].ready


class TestPBT:
    def make(self, controller, **options):
        settings = {
            "time_attr": "training_iteration", "metric": "score", "mode": "max",
            "perturbation_interval": 2, "resample_probability": 0,
            "hyperparam_mutations": {"lr": tune.uniform(0, 1)}, **options,
        }  # fmt: skip
        return controller(PopulationBasedTraining(**settings))

    def population(self, control, count=4):
        return [control.add(f"t{number}", lr=0.1 * (number + 1)) for number in range(count)]

    def test_the_worst_goes_on_from_the_best(self, controller, tmp_path):
        control = self.make(controller)
        trials = self.population(control)
        for trial in trials:
            trial.set_status(Trial.RUNNING)
            assert control.report(trial, training_iteration=1, score=0) == CONTINUE
        for score, trial in enumerate(trials[1:], start=1):
            assert control.report(trial, training_iteration=2, score=score) == CONTINUE
        assert control.saved == ["t2", "t3"]  # each was the best when it came
        worst = trials[0]
        assert control.report(worst, training_iteration=2, score=-1) == NOOP
        assert worst.status == Trial.PAUSED
        assert worst.adopted == "checkpoint of t3"
        assert worst.config["lr"] in (pytest.approx(0.4 * 1.2), pytest.approx(0.4 * 0.8))
        assert "@perturbed[lr=0." in worst.experiment_tag
        row = json.loads((tmp_path / "experiment" / "pbt_policy_t0.txt").read_text())
        assert row[4:] == [{"lr": 0.4}, {"lr": worst.config["lr"]}]

    def test_the_newest_checkpoint_is_taken(self, controller):
        control = self.make(controller)
        worst, best = self.population(control, 2)
        worst.set_status(Trial.RUNNING)
        control.report(worst, training_iteration=1, score=0)
        control.report(best, training_iteration=2, score=1)
        control.report(worst, training_iteration=2, score=0)
        control.report(best, training_iteration=4, score=2)
        assert control.saved == ["t1"]
        best.on_checkpoint(RecordedCheckpoint(Checkpoint("newer"), {"training_iteration": 5}))
        control.report(worst, training_iteration=4, score=0)
        assert worst.adopted == "newer"

    def test_with_others_waiting_trials_take_turns(self, controller):
        control = self.make(controller)
        first, second = self.population(control, 2)
        assert control.report(first, training_iteration=2, score=1) == PAUSE
        assert control.scheduler.choose_trial_to_run(control) is second

    def test_in_step_all_wait_for_the_last(self, controller):
        control = self.make(controller, synch=True)
        trials = self.population(control)
        for score, trial in enumerate(trials[:-1]):
            assert control.report(trial, training_iteration=2, score=score) == PAUSE
        assert control.scheduler.choose_trial_to_run(control) is trials[-1]
        assert control.report(trials[-1], training_iteration=2, score=9) == PAUSE
        assert control.scheduler._num_perturbations == 1
        assert trials[0].adopted == "checkpoint of t3"

    def test_missing_parts_of_nested_parameters_are_drawn(self, controller):
        control = self.make(controller, hyperparam_mutations={"n": {"a": [1, 2], "m": [3]}})
        trial = control.add("a", n={"a": 1})
        assert trial.config == {"n": {"a": 1, "m": 3}}
        assert trial.evaluated_params == {"n/m": 3}

    def test_missing_parameters_are_drawn(self, controller):
        control = self.make(controller, hyperparam_mutations={"lr": [1, 2], "n": {"m": [3]}})
        trial = control.add("a")
        assert trial.config["lr"] in (1, 2)
        assert trial.config["n"] == {"m": 3}

    def test_missing_attributes(self, controller):
        control = self.make(controller)
        with pytest.raises(RuntimeError, match="require_attrs"):
            control.report(control.add("a", lr=1), training_iteration=2)
        relaxed = self.make(controller, require_attrs=False)
        assert relaxed.report(relaxed.add("a", lr=1), training_iteration=2) == CONTINUE

    def test_lists_move_to_neighbours_and_integers_stay_integers(self):
        from skate.tune.schedulers._explore import explore

        spaces = {"l": [1, 2, 3], "i": tune.randint(0, 100), "n": {"f": lambda: 7.0}}
        config = {"l": 2, "i": 10, "n": {"f": 1.0}, "other": object}
        for _ in range(20):
            new, operations = explore(config, spaces, 0.5, (1.2, 0.8), None)
            assert new["l"] in (1, 2, 3)
            assert isinstance(new["i"], int)
            assert new["n"]["f"] in (7.0, 1.2, 0.8)
            assert new["other"] is object
            assert set(operations) == {"l", "i", "n"}
        with pytest.raises(ValueError, match="custom_explore_fn"):
            explore(config, spaces, 0.5, (1.2,), lambda config: None)
        for wrong in ({1, 2, 3}, "text"):
            with pytest.raises(ValueError, match="lists, tuples"):
                explore(config, {"l": wrong}, 0.0, (1.2,), None)

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            ({"hyperparam_mutations": {}}, tune.TuneError),
            ({"hyperparam_mutations": {"a": tune.sample_from(lambda: 1)}}, ValueError),
            ({"hyperparam_mutations": {"a": 3}}, TypeError),
            ({"hyperparam_mutations": {"a": {"b": {3, 4}}}}, TypeError),
            ({"hyperparam_mutations": {"a": {"b": "text"}}}, TypeError),
            ({"quantile_fraction": 0.6}, ValueError),
            ({"perturbation_interval": 0}, ValueError),
        ],
    )
    def test_impossible_settings(self, controller, wrong, error):
        with pytest.raises(error):
            self.make(controller, **wrong)

    def test_replay_repeats_the_schedule(self, controller, tmp_path):
        rows = [
            ["x", "y", 1, 1, {"lr": 9}, {"lr": 8}],
            ["b", "c", 2, 2, {"lr": 1}, {"lr": 2}],
            ["a", "b", 4, 4, {"lr": 2}, {"lr": 3}],
        ]
        policy = tmp_path / "policy.txt"
        policy.write_text("\n".join(json.dumps(row) for row in rows))
        control = controller(PopulationBasedTrainingReplay(str(policy)))
        trial = control.add("a")
        assert trial.config == {"lr": 1}
        decisions = []
        for t in range(1, 6):
            decisions.append(control.report(trial, training_iteration=t))
        assert decisions == [CONTINUE, NOOP, CONTINUE, NOOP, CONTINUE]
        assert trial.config == {"lr": 3}
        with pytest.raises(ValueError, match="one trial"):
            control.add("b")

    @pytest.mark.parametrize(
        "line",
        ["[" * 100_000, "{", "7", "[1, 2]", '["a", "b", 1, "\\u001b]0;x", {}, {}]', "[9" * 5000],
        ids=lambda line: line[:9],
    )
    def test_a_schedule_that_is_none_is_named(self, tmp_path, line):
        policy = tmp_path / "policy.txt"
        policy.write_text(line)
        with pytest.raises(ValueError, match=r"policy\.txt") as refused:
            PopulationBasedTrainingReplay(str(policy))
        assert str(refused.value).isprintable()

    def test_pb2_stays_within_the_bounds_and_learns(self, controller):
        control = controller(
            PB2("training_iteration", "score", "max", 1, {"lr": [0, 10], "n": {"k": [1, 5]}})
        )
        trials = [control.add(f"t{i}", lr=float(2 * i), n={"k": 2}) for i in range(5)]
        for trial in trials:
            trial.set_status(Trial.RUNNING)
        for t in range(1, 12):
            for trial in trials:
                score = trial.last_result.get("score", 0) + trial.config["lr"]
                control.report(trial, training_iteration=t, score=score)
        assert control.scheduler._num_perturbations >= 2
        assert all(0 <= trial.config["lr"] <= 10 for trial in trials)
        assert all(1 <= trial.config["n"]["k"] <= 5 for trial in trials)

    def test_pb2_needs_bounds(self):
        with pytest.raises(tune.TuneError, match="hyperparam_bounds"):
            PB2(metric="score", mode="max")
        for wrong in ([1], 1, [2, 1]):
            with pytest.raises(ValueError, match="lr"):
                PB2(metric="score", mode="max", hyperparam_bounds={"lr": wrong})

    def test_pb2_learns_from_the_first_result_of_a_configuration(self, controller):
        """What it gains on the trial that it was copied from, it gains by what was changed."""
        control = controller(
            PB2("training_iteration", "score", "max", 1, {"lr": [0, 10]}, quantile_fraction=0.5)
        )
        good, bad = control.add("good", lr=9.0), control.add("bad", lr=1.0)
        for time in (1, 2):
            control.report(good, training_iteration=time, score=9.0 * time)
            control.report(bad, training_iteration=time, score=1.0 * time)
        assert bad.adopted == "checkpoint of good"
        control.report(bad, training_iteration=3, score=18.0 + 5)
        data, growth = control.scheduler._growth()
        known = dict(zip(map(tuple, data.tolist()), growth.tolist(), strict=True))
        assert known[2, 18, bad.config["lr"]] == 5


class TestResources:
    def test_spare_resources_are_shared(self, controller):
        scheduler = ResourceChangingScheduler(FIFOScheduler(), DistributeResources())
        control = controller(scheduler, cpus=4)
        first, second = control.add("a"), control.add("b")
        assert control.report(first, training_iteration=1) == PAUSE
        assert scheduler.choose_trial_to_run(control) in (first, second)
        assert first.placement_group_factory.required_resources == {"CPU": 2.0}
        assert control.report(first, training_iteration=2) == CONTINUE
        second.set_status(Trial.TERMINATED)
        assert control.report(first, training_iteration=3) == PAUSE

    def test_what_is_free_goes_to_who_asks_up_to_a_share(self, controller):
        control = controller(ResourceChangingScheduler(None, DistributeResources()), cpus=8)
        trials = [control.add(name) for name in "abc"]
        cpus = []
        for trial in trials:
            control.report(trial, training_iteration=1)
            trial.set_status(Trial.PAUSED)
            control.scheduler.choose_trial_to_run(control)
            cpus.append(trial.placement_group_factory.required_resources["CPU"])
        assert cpus == [3, 3, 2]  # the spare five, by two at the most

    def test_a_controller_that_is_made_up_as_for_ray(self):
        class Updater:
            def get_num_cpus(self):
                return 4

            def get_num_gpus(self):
                return 0

        class Control:
            _resource_updater = Updater()

            def get_live_trials(self):
                return [trial]

        trial = Trial("made up", stub=True)
        scheduler = ResourceChangingScheduler(None, DistributeResources())
        scheduler.on_trial_add(Control(), trial)
        assert scheduler.on_trial_result(Control(), trial, {"training_iteration": 1}) == PAUSE
        scheduler.choose_trial_to_run(Control())

    def test_names_of_resources(self):
        allocate = DistributeResources(
            increase_by={"cpu": 1, "license": 1}, reserve_resources={"cpu": 1}
        )
        assert allocate.increase_by == {"CPU": 1, "license": 1}
        assert allocate.reserve_resources == {"CPU": 1}

    def test_schedulers_do_not_share_what_they_are_told(self, controller):
        best = AsyncHyperBandScheduler("training_iteration", "loss", "min")
        first = ResourceChangingScheduler(best)
        second = ResourceChangingScheduler()
        control = controller(first)
        control.report(control.add("a"), training_iteration=1, loss=1)
        assert (first._allocate.metric, second._allocate.metric) == ("loss", None)

    def test_as_bundles_and_within_limits(self, controller):
        allocate = DistributeResources(
            add_bundles=True, increase_by={"CPU": 1}, increase_by_times=2
        )
        control = controller(ResourceChangingScheduler(None, allocate), cpus=8)
        trial = control.add("a")
        control.report(trial, training_iteration=1)
        control.scheduler.choose_trial_to_run(control)
        assert trial.placement_group_factory.bundles == [{"CPU": 1.0}] * 3

    def test_a_trial_that_needs_nothing_itself_stays_so(self, controller):
        allocate = DistributeResources(add_bundles=True)
        control = controller(ResourceChangingScheduler(None, allocate), cpus=4)
        base = tune.PlacementGroupFactory([{}, {"CPU": 2}])
        first, second = control.add("a", base), control.add("b", base)
        assert control.report(first, training_iteration=1) == CONTINUE
        second.set_status(Trial.TERMINATED)
        assert control.report(first, training_iteration=2) == PAUSE
        control.scheduler.choose_trial_to_run(control)
        wanted = tune.PlacementGroupFactory([{}, {"CPU": 2}, {"CPU": 2}])
        assert first.placement_group_factory == wanted

    def test_the_best_takes_all(self, controller):
        allocate = DistributeResourcesToTopJob(metric="score", mode="max")
        control = controller(ResourceChangingScheduler(None, allocate), cpus=4)
        best, other = control.add("a"), control.add("b")
        best.update_last_result({"score": 5})
        assert control.report(other, training_iteration=1, score=1) == CONTINUE
        assert control.report(best, training_iteration=1, score=9) == PAUSE


def test_the_order_is_that_of_their_making(controller):
    control = controller(FIFOScheduler())
    first, second = control.add("a"), control.add("b")
    first.set_status(Trial.PAUSED)
    assert control.scheduler.choose_trial_to_run(control) is second
    second.set_status(Trial.RUNNING)
    assert control.scheduler.choose_trial_to_run(control) is first


def test_schedulers_by_name():
    made = create_scheduler("asha", max_t=7, perturbation_interval=3)
    assert isinstance(made, AsyncHyperBandScheduler)
    assert made._max_t == 7
    with pytest.raises(ValueError, match="hyperband"):
        create_scheduler("nonsense")


@pytest.mark.parametrize("none", [None, False])
def test_a_search_without_a_scheduler(none):
    assert isinstance(make_scheduler(none), FIFOScheduler)


def test_metric_and_mode_are_given_in_one_place():
    own = AsyncHyperBandScheduler(metric="loss", mode="min")
    assert own.set_search_properties(None, None)
    assert not own.set_search_properties("acc", None)
    assert not own.set_search_properties(None, "max")
