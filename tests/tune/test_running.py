"""Searches that really run: functions and classes of all eras, failures, limits, resources."""

import importlib
import json
import logging
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from traceback import format_exception

import pytest

import skate
from skate import tune
from skate.train import FailureConfig, RunConfig
from skate.tune.execution import launch
from skate.tune.schedulers import (
    AsyncHyperBandScheduler,
    HyperBandScheduler,
    PopulationBasedTraining,
    ResourceChangingScheduler,
)
from skate.tune.trainable import wrap_function
from tests.support import Tally, run_program


def last(analysis):
    return [trial.last_result for trial in analysis.trials]


def square(config):
    for step in range(4):
        tune.report({"loss": (config["x"] - 2) ** 2, "step": step})


class Counter(tune.Trainable):
    """Adds `by` in each step."""

    def setup(self, config):
        self.value, self.by = 0, config["by"]

    def step(self):
        self.value += self.by
        return {"value": self.value, "pid_here": os.getpid()}

    def save_checkpoint(self, checkpoint_dir):
        return {"value": self.value}

    def load_checkpoint(self, checkpoint):
        self.value = checkpoint["value"]


class FileCounter(Counter):
    """The same, with a file as its checkpoint, in the way of older programs."""

    def save_checkpoint(self, checkpoint_dir):
        path = os.path.join(checkpoint_dir, "state.json")
        with open(path, "w") as file:
            json.dump(self.value, file)
        return path

    def load_checkpoint(self, path):
        with open(path) as file:
            self.value = json.load(file)


class TestFunctions:
    def test_results_and_files(self, run):
        analysis = run(
            square, config={"x": tune.grid_search([1, 2, 3])}, metric="loss", mode="min"
        )
        assert analysis.best_config == {"x": 2}
        assert analysis.best_result["loss"] == 0
        result = analysis.best_result
        assert result["training_iteration"] == 4
        assert result["done"]
        assert result["config"] == {"x": 2}
        files = {name.partition(".tfevents")[0] for name in os.listdir(analysis.best_trial.path)}
        expected = {"params.json", "params.pkl", "result.json", "progress.csv", "events.out"}
        assert files == expected
        assert len(analysis.trial_dataframes[result["trial_id"]]) == 4
        assert analysis.dataframe()["config/x"].tolist() == [1, 2, 3]
        assert analysis.results_df["loss"].tolist() == [1, 0, 1]

    def test_every_way_to_report(self, run):
        def by_name(config):
            tune.report(score=1)

        def as_value(config):
            return {"score": 1}

        def as_number(config):
            return 1

        def as_generator(config):
            yield {"score": 0}
            yield {"score": 1}

        def with_reporter(config, reporter):
            reporter(score=1)

        def without_config():
            tune.report({"score": 1})

        for number, function in enumerate(
            (by_name, as_value, as_generator, with_reporter, without_config)
        ):
            assert last(run(function, name=str(number)))[0]["score"] == 1
        assert last(run(as_number, name="number"))[0]["_metric"] == 1
        assert last(run(partial(by_name), name="partial"))[0]["score"] == 1
        with pytest.raises(tune.TuneError, match="a trial may return"):
            run(lambda config: "text", name="text")

    def test_every_way_to_save(self, run):
        def with_dir(config, checkpoint_dir=None):
            start = 0
            if checkpoint_dir:
                start = int(Path(os.path.join(checkpoint_dir, "step")).read_text()) + 1
            for step in range(start, 4):
                with tune.checkpoint_dir(step) as folder, open(f"{folder}/step", "w") as file:
                    file.write(str(step))
                tune.report(step=step, start=start)
                if step == 1 and start == 0:
                    raise ValueError("try again")

        def with_file(config, checkpoint=None):
            start = json.loads(Path(checkpoint).read_text()) + 1 if checkpoint else 0
            for step in range(start, 4):
                path = os.path.join(tune.make_checkpoint_dir(step), "step")
                Path(path).write_text(json.dumps(step))
                tune.save_checkpoint(path)
                tune.report(step=step, start=start)
                if step == 1 and start == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        def with_report(config):
            checkpoint = tune.get_checkpoint()
            start = checkpoint.to_dict()["step"] + 1 if checkpoint else 0
            for step in range(start, 4):
                made = tune.Checkpoint.from_dict({"step": step})
                tune.report({"step": step, "start": start}, checkpoint=made)
                assert tune.get_checkpoint().to_dict() == {"step": step}
                if step == 1 and start == 0:
                    raise ValueError("try again")

        for function in (with_dir, with_file, with_report):
            trial = run(function, name=function.__name__, max_failures=1).trials[0]
            result = trial.last_result
            assert (result["step"], result["start"]) == (3, 2)
            assert result["training_iteration"] == 4
            assert trial.num_failures == 1
        assert trial.checkpoint.to_dict() == {"step": 3}
        assert os.path.basename(trial.checkpoint.path) == "checkpoint_000003"

    def test_a_checkpoint_that_is_a_file_is_that_file(self, run):
        def saving(config, checkpoint=None):
            path = os.path.join(tune.make_checkpoint_dir(0), "weights")
            Path(path).write_text("here")
            tune.save_checkpoint(path)
            tune.report(loss=1)

        trial = run(saving, checkpoint_at_end=True).trials[0]
        assert Path(trial.checkpoint.value).read_text() == "here"
        assert trial.checkpoint.value.endswith("checkpoint_000000/weights")

    def test_the_older_way_to_ask_is_taken_of_a_function_by_its_name(self, run):
        tune.register_trainable("saves when it wants to", lambda config: tune.report(loss=1))
        trial = run("saves when it wants to", checkpoint_at_end=True).trials[0]
        assert trial.last_result["loss"] == 1

    @pytest.mark.parametrize("option", ["checkpoint_frequency", "checkpoint_at_end"])
    def test_a_function_cannot_be_asked_to_save(self, run, option):
        with pytest.raises(ValueError, match=option):
            run(lambda config: None, checkpoint_config=tune.CheckpointConfig(**{option: 1}))

    def test_the_best_checkpoints_are_kept(self, run):
        def saving(config):
            for loss in (3, 1, 2, 4):
                tune.report({"loss": loss}, checkpoint=tune.Checkpoint.from_dict({"loss": loss}))

        analysis = run(saving, keep_checkpoints_num=2, checkpoint_score_attr="min-loss")
        trial = analysis.trials[0]
        kept = sorted(c.to_dict()["loss"] for c, _ in trial.get_best_checkpoints())
        assert kept == [1, 2]
        assert analysis.get_best_checkpoint(trial, "loss", "min").to_dict() == {"loss": 1}
        folders = [name for name in os.listdir(trial.path) if name.startswith("checkpoint_")]
        # The last stays, too: the trial could go on from it.
        assert sorted(folders) == [f"checkpoint_00000{number}" for number in (1, 2, 3)]

    def test_who_and_where(self, run):
        def asking(config):
            context = tune.get_context()
            assert context.get_trial_id() == tune.get_trial_id()
            assert context.get_trial_name() == f"asking_{context.get_trial_id()}"
            tune.report(
                folder=context.get_trial_dir(), cwd=os.getcwd(), name=context.get_experiment_name()
            )

        trial = run(asking).trials[0]
        assert trial.last_result["folder"] == trial.path
        assert trial.last_result["cwd"] == os.getcwd()
        assert trial.last_result["name"] == "run"
        moved = run(asking, name="moved", chdir_to_trial_dir=True).trials[0]
        assert moved.last_result["cwd"] == moved.path

    @pytest.mark.parametrize(
        ("variables", "given", "moves"),
        [
            ({}, None, False),
            ({"SKATE_AS_RAY": "1"}, None, True),
            ({"SKATE_AS_RAY": "1"}, False, False),
            ({"SKATE_AS_RAY": "1", "RAY_CHDIR_TO_TRIAL_DIR": "0"}, None, False),
            ({"RAY_CHDIR_TO_TRIAL_DIR": "1"}, None, True),
        ],
    )
    def test_whether_trials_run_in_their_folders(
        self, session, monkeypatch, variables, given, moves
    ):
        monkeypatch.delenv("RAY_CHDIR_TO_TRIAL_DIR", raising=False)
        monkeypatch.delenv("SKATE_AS_RAY", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert launch._changes_directory(tune.TuneConfig(chdir_to_trial_dir=given)) is moves

    def test_output_in_files(self, run):
        def talking(config):
            print("hello")
            logging.getLogger("skate").info("a note")
            tune.report(x=1)

        trial = run(talking, log_to_file=True).trials[0]
        assert Path(os.path.join(trial.path, "stdout")).read_text() == "hello\n"
        (line,) = Path(os.path.join(trial.path, "stderr")).read_text().splitlines()
        assert line.startswith("INFO")
        assert line.endswith("a note")

    def test_large_parameters_are_shared(self, run):
        def using(config, data, checkpoint=None):
            tune.report(total=sum(data), first=checkpoint is None)

        with_data = tune.with_parameters(using, data=list(range(1000)))
        assert last(run(with_data))[0]["total"] == 499500
        resources = tune.with_resources(with_data, {"cpu": 2})
        trial = run(resources, name="resources").trials[0]
        assert trial.placement_group_factory.required_resources == {"CPU": 2.0}

    def test_resources_are_of_what_is_returned_and_not_of_the_function(self):
        def plain(config):
            """Do nothing."""

        plain.mark = "kept"
        asking = tune.with_resources(plain, {"cpu": 7})
        more = tune.with_resources(asking, {"cpu": 3})
        assert (asking.__name__, asking.__doc__, asking.mark) == ("plain", "Do nothing.", "kept")
        wanted = [
            wrap_function(function).default_resource_request({})
            for function in (plain, asking, more)
        ]
        assert [group and group.required_resources for group in wanted] == [
            None, {"CPU": 7.0}, {"CPU": 3.0},
        ]  # fmt: skip

    @pytest.mark.parametrize("kind", [TypeError, ValueError])
    def test_what_are_no_resources(self, kind):
        with pytest.raises(kind, match=r"resources are a dictionary.*; got 'two'"):
            tune.with_resources(lambda config: None, "two")

    @pytest.mark.parametrize("bound", [False, True])
    def test_resources_of_functions_with_other_arguments(self, run, bound):
        def nothing():
            tune.report(n=1)

        def with_reporter(config, reporter):
            reporter(n=config["x"])

        for function in (nothing, with_reporter):
            given = partial(function) if bound else function
            asking = tune.with_resources(given, {"cpu": 1})
            assert last(run(asking, config={"x": 1}, name=function.__name__))[0]["n"] == 1

    def test_names(self, run):
        analysis = run(
            square, config={"x": 1}, trial_name_creator=lambda t: f"my_{t.config['x']}",
            trial_dirname_creator=lambda t: "folder",
        )  # fmt: skip
        assert str(analysis.trials[0]) == "my_1"
        assert os.path.basename(analysis.trials[0].path) == "folder"


class TestClasses:
    @pytest.mark.parametrize(
        ("given", "count"),
        [({}, 1), ({"checkpoint_frequency": 2}, 2), ({"checkpoint_at_end": False}, 0)],
        ids=["nothing", "frequency", "no"],
    )
    def test_those_of_a_tuner_save_at_their_end(self, session, tmp_path, given, count):
        run_config = tune.RunConfig(
            storage_path=tmp_path,
            verbose=0,
            stop={"training_iteration": 3},
            checkpoint_config=tune.CheckpointConfig(**given),
        )
        [result] = tune.Tuner(Counter, param_space={"by": 1}, run_config=run_config).fit()
        assert len(result.best_checkpoints) == count
        assert (result.checkpoint is not None) == bool(count)

    def test_those_of_a_tuner_that_cannot_save_need_not(self, session, tmp_path):
        class Unsaved(tune.Trainable):
            def step(self):
                return {"value": 1, "done": True}

        run_config = tune.RunConfig(storage_path=tmp_path, verbose=0)
        [result] = tune.Tuner(Unsaved, run_config=run_config).fit()
        assert (result.error, result.checkpoint) == (None, None)

    @pytest.mark.parametrize("given", [None, 3, {"fn": print}], ids=str)
    def test_a_tuner_is_told_at_once_that_it_has_no_trainable(self, given):
        with pytest.raises(tune.TuneError, match=f"needs a trainable.*got {given!r}"):
            tune.Tuner(given)

    @pytest.mark.parametrize("trainable", [Counter, FileCounter])
    def test_steps_and_checkpoints(self, run, trainable):
        analysis = run(
            trainable, config={"by": tune.grid_search([1, 2])}, stop={"training_iteration": 5},
            checkpoint_freq=2, checkpoint_at_end=True, metric="value", mode="max",
        )  # fmt: skip
        assert [result["value"] for result in last(analysis)] == [5, 10]
        iterations = [
            m["training_iteration"] for _, m in analysis.trials[0].get_best_checkpoints()
        ]
        assert iterations == [2, 4, 5]
        again = run(
            trainable, name="again", config={"by": 1}, stop={"training_iteration": 6},
            restore=analysis.best_checkpoint.path,
        )  # fmt: skip
        assert last(again)[0]["value"] == 11

    def test_a_failing_step_goes_on_from_the_last_checkpoint(self, run, tmp_path):
        tally = Tally(tmp_path / "tally")

        class Failing(Counter):
            def step(self):
                if self.value == 3 and tally.add() < 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().step()

        trial = run(
            Failing, config={"by": 1}, stop={"value": 5}, checkpoint_freq=1, max_failures=3
        ).trials[0]
        assert trial.last_result["value"] == 5
        assert trial.last_result["training_iteration"] == 5

    def test_instances_are_used_again_if_they_can_be(self, run, tmp_path):
        tally = Tally(tmp_path / "tally")

        class Reusable(Counter):
            def setup(self, config):
                tally.add()
                super().setup(config)

            def reset_config(self, new_config):
                self.value, self.by = 0, new_config["by"]
                return True

        analysis = run(
            Reusable, config={"by": tune.grid_search([1, 2, 3, 4])}, reuse_actors=True,
            stop={"training_iteration": 2}, max_concurrent_trials=1,
        )  # fmt: skip
        assert [result["value"] for result in last(analysis)] == [2, 4, 6, 8]
        assert len(tally) == 1

    def test_an_instance_that_cannot_be_used_again_is_an_error(self, run, tmp_path):
        ended = Tally(tmp_path / "ended")

        class NotReusable(Counter):
            def cleanup(self):
                ended.add()

        with pytest.raises(tune.TuneError, match="reset_config"):
            run(
                NotReusable, config={"by": tune.grid_search([1, 2])}, reuse_actors=True,
                stop={"training_iteration": 1}, max_concurrent_trials=1,
            )  # fmt: skip
        assert len(ended) == 1

    def test_processes_are_used_again_unless_not(self, run):
        space = {"by": tune.grid_search([1, 2, 3])}
        stop = {"training_iteration": 1}
        same = last(run(Counter, config=space, stop=stop, max_concurrent_trials=1))
        assert len({result["pid_here"] for result in same}) == 1
        fresh = last(run(Counter, name="b", config=space, stop=stop, reuse_actors=False))
        assert len({result["pid_here"] for result in fresh}) == 3

    def test_by_hand(self, tmp_path):
        first = Counter({"by": 3})
        assert first.train()["value"] == 3
        assert first.train()["training_iteration"] == 2
        saved = first.save(str(tmp_path / "saved"))
        second = Counter({"by": 1})
        second.restore(saved)
        assert second.train()["value"] == 7
        assert second.training_iteration == 3
        assert saved.checkpoint.path == str(tmp_path / "saved")

    def test_by_name(self, run):
        tune.register_trainable("counter", Counter)
        assert last(run("counter", config={"by": 2}, stop={"value": 4}))[0]["value"] == 4
        with pytest.raises(tune.TuneError, match="register_trainable"):
            run("nobody")


class TestStopping:
    def test_criteria_end_a_trial_at_that_report(self, run, tmp_path):
        tally = Tally(tmp_path / "tally")

        def counting(config):
            for step in range(100):
                tune.report({"step": step})
                tally.add()

        for number, stop in enumerate([{"step": 3}, lambda trial_id, result: result["step"] >= 3]):
            analysis = run(counting, name=str(number), stop=stop)
            assert last(analysis)[0]["step"] == 3
            assert analysis.trials[0].status == "TERMINATED"
            assert len(tally) == 3 * (number + 1)  # nothing ran behind the last report

    def test_a_scheduler_stops_a_trial_at_its_report(self, run, tmp_path):
        tally = Tally(tmp_path / "tally")

        def counting(config):
            for _step in range(1, 10):
                tune.report({"loss": config["x"]})
                tally.add()

        run(
            counting, config={"x": tune.grid_search([1, 5, 6, 7])}, metric="loss", mode="min",
            max_concurrent_trials=1, scheduler=AsyncHyperBandScheduler(max_t=9, brackets=1),
        )  # fmt: skip
        assert len(tally) == 8

    def test_a_time_budget(self, run):
        def endless(config):
            while True:
                time.sleep(0.01)
                tune.report(x=1)

        start = time.monotonic()
        analysis = run(endless, num_samples=3, time_budget_s=0.5)
        assert 0.5 <= time.monotonic() - start < 60
        assert {trial.status for trial in analysis.trials} == {"TERMINATED"}
        assert not analysis.trials[2].last_result  # it has waited for its turn in vain

    def test_trials_clean_up_when_they_are_stopped(self, run, tmp_path):
        def tidy(config):
            try:
                for step in range(10):
                    tune.report(step=step)
            finally:
                (tmp_path / "tidied").touch()

        run(tidy, stop={"step": 2})
        assert (tmp_path / "tidied").exists()


class TestFailures:
    def test_an_error_is_the_users_own(self, run):
        def failing(config):
            tune.report(x=1)
            raise KeyError("mine")

        with pytest.raises(tune.TuneError, match="mine") as caught:
            run(failing)
        assert isinstance(caught.value.__cause__, KeyError)
        analysis = run(failing, name="again", raise_on_failed_trial=False)
        trial = analysis.trials[0]
        assert trial.status == "ERROR"
        assert "mine" in Path(trial.error_file).read_text()
        stored = tune.ExperimentAnalysis(analysis.experiment_path).trials[0]
        assert isinstance(stored.get_error(), KeyError)

    def test_fail_fast(self, run):
        def failing(config):
            raise ValueError(f"at {config['x']}")

        space = {"x": tune.grid_search(list(range(5)))}
        analysis = run(
            failing, config=space, fail_fast=True, raise_on_failed_trial=False,
            max_concurrent_trials=1,
        )  # fmt: skip
        assert analysis.trials[0].status == "ERROR"
        assert not any(trial.num_failures for trial in analysis.trials[1:])
        with pytest.raises(ValueError, match="at 0"):
            run(failing, name="raised", config=space, fail_fast="raise", max_concurrent_trials=1)
        with pytest.raises(ValueError, match="max_failures"):
            run(failing, fail_fast=True, max_failures=3)

    def test_a_missing_metric_is_named(self, run):
        with pytest.raises(ValueError, match="'accuracy'"):
            run(square, config={"x": 1}, metric="accuracy", mode="max")

    def test_other_processes_of_a_dead_trial_do_not_matter(self, run):
        def dying(config):
            if config["x"] == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            tune.report(x=config["x"])

        analysis = run(
            dying, config={"x": tune.grid_search([0, 1, 2])}, raise_on_failed_trial=False
        )
        assert [t.status for t in analysis.trials] == ["TERMINATED", "ERROR", "TERMINATED"]


class TestResources:
    def test_trials_wait_for_their_resources(self, run):
        def alone(config):
            start = time.time()
            time.sleep(0.1)
            tune.report(start=start, end=time.time())

        results = last(run(alone, num_samples=2, resources_per_trial={"cpu": 2}))
        first, second = sorted(results, key=lambda result: result["start"])
        assert second["start"] >= first["end"]

    def test_a_pretended_gpu_is_shared(self, run, tmp_path):
        tally = Tally(tmp_path / "tally")

        def seeing(config):
            tally.add()
            deadline = time.monotonic() + 60
            while len(tally) < config["together"]:  # the others are here at the same time
                assert time.monotonic() < deadline
                time.sleep(0.01)
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            tune.report(gpus=skate.get_gpu_ids(), visible=visible)

        half = {"cpu": 1, "gpu": 0.5}
        shared = run(seeing, config={"together": 2}, num_samples=2, resources_per_trial=half)
        assert [(r["gpus"], r["visible"]) for r in last(shared)] == [([0], "0")] * 2
        none = run(seeing, name="none", config={"together": 1}, resources_per_trial={"cpu": 1})
        assert (last(none)[0]["gpus"], last(none)[0]["visible"]) == ([], "")

    def test_bundles_for_what_a_trial_starts(self, run):
        def parent(config):
            task = skate.remote(lambda: 5)
            tune.report(value=skate.get(task.remote()))

        bundles = tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}])
        assert last(run(parent, resources_per_trial=bundles))[0]["value"] == 5

    def test_bundles_for_a_class_that_happens_to_have_a_trainer(self, run):
        class Fitting(tune.Trainable):
            trainer = "of another library"

            def step(self):
                group = skate.util.get_current_placement_group()
                return {"bundles": group.bundle_specs, "done": True}

        bundles = tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}])
        analysis = run(Fitting, resources_per_trial=bundles)
        assert last(analysis)[0]["bundles"] == [{"CPU": 1.0}] * 2

    def test_what_can_never_be_met_fails_at_once(self, run):
        with pytest.raises(tune.TuneError, match=r"8\.0.*skate\.init"):
            run(square, config={"x": 1}, resources_per_trial={"cpu": 8, "gpu": 2})

    def test_resources_change_while_trials_run(self, run):
        scheduler = ResourceChangingScheduler()
        analysis = run(
            Counter, config={"by": 1}, stop={"training_iteration": 4}, scheduler=scheduler
        )
        trial = analysis.trials[0]
        assert trial.placement_group_factory.required_resources == {"CPU": 2.0}
        assert trial.last_result["value"] == 4

    def test_a_function_for_ray_that_allocates_resources(self, run):
        def allocate(controller, trial, result, scheduler):
            cpus = controller._resource_updater.get_num_cpus()
            assert controller.trial_executor._resource_updater.get_num_gpus() == 1
            return tune.PlacementGroupFactory([{"CPU": cpus}])

        scheduler = ResourceChangingScheduler(resources_allocation_function=allocate)
        analysis = run(
            Counter, config={"by": 1}, stop={"training_iteration": 2}, scheduler=scheduler
        )
        assert analysis.trials[0].placement_group_factory.required_resources == {"CPU": 2.0}


class TestPausing:
    def test_hyperband(self, run):
        analysis = run(
            Counter, config={"by": tune.grid_search(list(range(8)))}, metric="value", mode="max",
            scheduler=HyperBandScheduler(max_t=4, reduction_factor=2),
        )  # fmt: skip
        assert {trial.status for trial in analysis.trials} == {"TERMINATED"}
        for trial in analysis.trials:
            result = trial.last_result
            assert result["value"] == trial.config["by"] * result["training_iteration"]
        assert analysis.best_config == {"by": 7}

    @pytest.mark.parametrize("synch", [False, True])
    def test_population_based_training(self, run, synch):
        scheduler = PopulationBasedTraining(
            time_attr="training_iteration", perturbation_interval=2, synch=synch,
            hyperparam_mutations={"by": tune.uniform(0, 10)},
        )  # fmt: skip
        analysis = run(
            Counter, config={"by": tune.grid_search([1.0, 2.0, 3.0, 4.0])}, metric="value",
            mode="max", stop={"training_iteration": 8}, scheduler=scheduler,
        )  # fmt: skip
        assert scheduler._num_perturbations > 0
        assert [result["training_iteration"] for result in last(analysis)] == [8] * 4
        changed = [trial for trial in analysis.trials if "perturbed" in trial.experiment_tag]
        stored = tune.ExperimentAnalysis(analysis.experiment_path)
        configs = {trial.trial_id: trial.config for trial in stored.trials}
        assert changed
        assert all(configs[trial.trial_id] == trial.config for trial in changed)


def test_a_function_that_does_not_see_its_space(session, tmp_path, capsys):
    def fixed():
        return {"loss": 1}

    tune.run(fixed, config={"x": tune.choice([1, 2])}, storage_path=tmp_path, verbose=0)
    assert "(x): write def fixed(config)" in capsys.readouterr().err
    tune.run(lambda: {"loss": 1}, storage_path=tmp_path, verbose=0)
    assert capsys.readouterr().err == ""


def test_an_experiment_has_its_own_limits(session, tmp_path):
    experiment = tune.Experiment("one", square, config={"x": 1}, storage_path=tmp_path)
    with pytest.warns(UserWarning, match=r"^config=\{'x': 2\}, num_samples=3 of tune.run\(\) ch"):
        analysis = tune.run(experiment, config={"x": 2}, num_samples=3, metric="loss", verbose=0)
    assert [trial.config for trial in analysis.trials] == [{"x": 1}]


def test_callbacks_hear_everything(run):
    class Listener(tune.Callback):
        def __init__(self):
            self.heard = []

        def setup(self, stop=None, num_samples=None, total_num_samples=None, **info):
            self.heard.append(f"setup {total_num_samples}")

        def on_step_begin(self, iteration, trials, **info):
            self.step = "begun"

        def on_step_end(self, iteration, trials, **info):
            assert self.step == "begun"
            self.step = "ended"

        def on_trial_start(self, iteration, trials, trial, **info):
            assert self.step == "begun"
            self.heard.append(f"start {len(trials)}")

        def on_trial_result(self, iteration, trials, trial, result, **info):
            self.heard.append(f"result {result['step']}")

        def on_trial_complete(self, iteration, trials, trial, **info):
            self.heard.append("complete")

        def on_experiment_end(self, trials, **info):
            self.heard.append("end")

    listener = Listener()
    run(square, config={"x": 1}, callbacks=[listener])
    assert listener.step == "ended"
    results = [f"result {step}" for step in range(4)]
    assert listener.heard == ["setup 1", "start 1", *results, "complete", "end"]
    with pytest.raises(TypeError, match="instances"):
        run(square, config={"x": 1}, callbacks=[Listener], name="wrong")


@pytest.mark.parametrize("hook", ["on_trial_result", "on_step_end"])
def test_what_a_callback_raises_is_an_error_of_the_search(run, hook):
    def fail(self, *args, **info):
        raise KeyError("a callback's")

    listener = type("Listener", (tune.Callback,), {hook: fail})()
    with pytest.raises(tune.TuneError, match=r"KeyError: .a callback's") as caught:
        run(square, config={"x": 1}, callbacks=[listener])
    assert isinstance(caught.value, KeyError)
    assert type(caught.value.__cause__) is KeyError
    assert f"in {hook} of the callback Listener" in "".join(format_exception(caught.value))


def test_a_callback_asks_for_a_checkpoint(run):
    class Saving(tune.Trainable):
        def step(self):
            return {"step": self.iteration + 1}

        def save_checkpoint(self, folder):
            return {"step": self.iteration}

    class Asking(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if result["step"] in (2, 4):
                result["should_checkpoint"] = True

    (trial,) = run(Saving, stop={"step": 4}, callbacks=[Asking()]).trials
    assert [metrics["step"] for _, metrics in trial.get_best_checkpoints()] == [2, 4]


class TestWhatCallbacksAddToResults:
    class Adding(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            result["double"] = 2 * result["step"]

    class Hearing(tune.logger.LoggerCallback):
        def __init__(self):
            self.heard = []

        def log_trial_result(self, iteration, trial, result):
            self.heard.append(result.get("double"))

    def test_it_is_in_all_that_comes_after_them(self, run):
        before, after = self.Hearing(), self.Hearing()
        analysis = run(square, config={"x": 1}, callbacks=[before, self.Adding(), after])
        trial = analysis.trials[0]
        assert (before.heard, after.heard) == ([None] * 4, [0, 2, 4, 6])
        lines = (Path(trial.path) / "result.json").read_text().splitlines()
        assert [json.loads(line)["double"] for line in lines] == [0, 2, 4, 6]
        assert analysis.trial_dataframes[trial.trial_id]["double"].tolist() == [0, 2, 4, 6]
        assert "double" in (Path(trial.path) / "progress.csv").read_text().partition("\n")[0]

    def test_trials_are_compared_by_it(self, run):
        def steps(config):
            for step in range(config["steps"]):
                tune.report({"step": step})

        space = {"steps": tune.grid_search([1, 3, 2])}
        analysis = run(steps, config=space, callbacks=[self.Adding()])
        for scope in ("last", "all", "avg"):
            assert analysis.get_best_config("double", "max", scope) == {"steps": 3}
        summary = analysis.get_best_trial("double", "max").metric_analysis["double"]
        assert (summary["min"], summary["avg"], summary["last"]) == (0, 2, 4)


def test_each_result_is_a_step_of_its_own(run):
    class Steps(tune.Callback):
        def __init__(self):
            self.begun, self.ended, self.results = [], [], []

        def on_step_begin(self, iteration, trials, **info):
            self.begun.append(iteration)

        def on_step_end(self, iteration, trials, **info):
            self.ended.append(iteration)

        def on_trial_result(self, iteration, trials, trial, result, **info):
            self.results.append(iteration)

    steps = Steps()
    run(square, config={"x": 1}, callbacks=[steps])
    assert len(steps.results) == len(set(steps.results)) == 4  # though they come together
    assert set(steps.results) <= set(steps.begun)
    assert steps.begun == list(range(len(steps.begun)))
    assert steps.ended == [number + 1 for number in steps.begun]  # the steps that are done


def test_each_start_is_a_step_of_its_own(run, monkeypatch):
    class Counts(tune.Callback):
        def __init__(self):
            self.trials = []

        def on_step_end(self, iteration, trials, **info):
            self.trials.append(len(trials))

    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", "1")
    counts = Counts()
    run(square, config={"x": tune.grid_search([1, 2, 3])}, callbacks=[counts])
    assert sorted(set(counts.trials)) == [1, 2, 3]  # though several begin together


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "up"}, {"stop": 5}, {"num_samples": -2}, {"scheduler": 3}, {"search_alg": 3},
        {"resume": "SOMETIMES"}, {"checkpoint_freq": 2}, {"log_to_file": 7},
        {"num_samples": "3"}, {"num_samples": 2.5}, {"max_concurrent_trials": "2"},
        {"max_concurrent_trials": -1}, {"verbose": "a"}, {"fail_fast": "foo"},
        {"max_failures": "1"}, {"keep_checkpoints_num": 0}, {"export_formats": ["onnx"]},
        {"callbacks": [object()]}, {"trial_name_creator": lambda trial: 5},
        {"metric": "a", "mode": "min",
         "scheduler": AsyncHyperBandScheduler(metric="a", mode="min")},
    ],
)  # fmt: skip
def test_wrong_arguments(run, wrong):
    said = r"takes|is for|must return|in one place|is True|are instances"
    with pytest.raises((ValueError, TypeError), match=said):
        run(square, config={"x": 1}, **wrong)


def test_a_checkpoint_to_begin_with_must_be_there(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run(Counter, config={"by": 1}, restore=str(tmp_path / "nowhere"))


def test_a_stop_condition_that_nobody_reports_is_named(run, caplog):
    run(square, config={"x": 1}, stop={"training_iteraton": 5, "step": 9})
    assert "['training_iteraton']" in caplog.text


def test_searches_without_a_name_never_share_a_folder(tmp_path):
    made = [tune.Experiment(None, square, storage_path=tmp_path) for _ in range(3)]
    assert len({experiment.path for experiment in made}) == 3


def test_reports_outside_of_a_trial_say_where_they_belong():
    with pytest.raises(RuntimeError, match="trial"):
        tune.report(loss=1)


def test_importing_it_is_cheap():
    code = "import sys, skate.tune; assert not {'numpy', 'pandas', 'pyarrow'} & set(sys.modules)"
    run_program([sys.executable, "-c", code], check=True)


def test_the_process_of_a_trial_loads_only_what_it_needs(run):
    def looking(config):
        unneeded = ("search", "schedulers", "analysis", "execution.controller", "running")
        tune.report(loaded=[n for n in unneeded if f"skate.tune.{n}" in sys.modules])

    assert last(run(looking))[0]["loaded"] == []


def test_replacing_single_workers_is_for_trainers():
    run = RunConfig(failure_config=FailureConfig(restart="worker"))
    with pytest.raises(ValueError, match="the trainer's own run_config"):
        tune.Tuner(lambda config: None, run_config=run).fit()


def test_processes_begin_with_what_trials_import(run):
    importlib.import_module("pandas")  # only what is loaded here can be inherited

    def looks(config):
        inherited = "pandas" in sys.modules
        import pandas

        return {"inherited": inherited, "rows": len(pandas.DataFrame({"x": [1, 2]}))}

    results = last(run(looks, num_samples=2))
    assert [result["inherited"] for result in results] == [True, True]
