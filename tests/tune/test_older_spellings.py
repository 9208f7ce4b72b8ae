"""Spellings of earlier versions of Ray, beside today's."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path

import pytest

import skate
from skate import tune
from skate.train import RunConfig, ScalingConfig
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.tune.experiment import Experiment
from skate.tune.experiment.export_format import ExportFormat
from skate.tune.logger import (
    CSVLogger,
    JsonLogger,
    LegacyLoggerCallback,
    Logger,
    TBXLogger,
    UnifiedLogger,
)
from skate.tune.search.optuna import OptunaSearch
from tests.tune.test_utils import Counting


def saving(config, checkpoint_dir="none yet"):
    for step in range(3):
        with tune.checkpoint_dir(step) as folder:
            Path(folder, "step").write_text(str(step))
        tune.report(loss=config["x"] - step, began_with=checkpoint_dir)


@pytest.fixture
def analysis(run):
    return run(saving, config={"x": tune.grid_search([1, 2])}, name="first")


# -- what trials came to --------------------------------------------------------------------------


def test_checkpoints_with_their_metrics(analysis):
    best = analysis.get_best_trial("loss", "min")
    assert best.last_result["began_with"] == "none yet"
    paths = analysis.get_trial_checkpoints_paths(best, "loss")
    assert [value for _, value in paths] == [1, 0, -1]
    assert all(Path(path, "step").exists() for path, _ in paths)
    assert analysis.get_trial_checkpoints_paths(best.path) == [
        (path, number) for number, (path, _) in enumerate(paths, start=1)
    ]
    last = analysis.get_best_checkpoint(best.logdir, "loss", "min")
    assert last.dir_or_data == last.to_air_checkpoint().path == last._local_path == paths[-1][0]
    with pytest.raises(ValueError, match="not the folder of a trial"):
        analysis.get_trial_checkpoints_paths("elsewhere")


def test_trials_by_their_folders(analysis):
    first = analysis.trials[0]
    frames = analysis.fetch_trial_dataframes()
    assert list(frames[first.logdir].loss) == [1, 0, -1]
    assert frames[first.logdir] is analysis.trial_dataframes[first.trial_id]
    assert analysis.get_all_configs()[first.logdir] == first.config
    with pytest.raises(KeyError):
        frames["elsewhere"]


def test_all_experiments_of_a_folder(run, analysis):
    run(saving, config={"x": 3}, name="second")
    folder = os.path.dirname(analysis.experiment_path)
    everything = tune.ExperimentAnalysis(folder)
    assert sorted(trial.config["x"] for trial in everything.trials) == [1, 2, 3]
    with pytest.raises(ValueError, match="there is no experiment"):
        tune.ExperimentAnalysis(os.path.join(folder, "nothing"))


def test_what_describes_a_result_is_no_metric(analysis):
    metrics = analysis.trials[0].metric_analysis
    assert "loss" in metrics
    assert not {"timestamp", "pid", "trial_id", "config"} & set(metrics)


def test_environments_are_in_the_names_of_trials(run):
    (trial,) = run(lambda config: 1, config={"env": "games/Pong"}).trials
    assert str(trial) == f"lambda_games_Pong_{trial.trial_id}"
    assert os.path.basename(trial.path).startswith(str(trial))


# -- loggers as classes ---------------------------------------------------------------------------


class Remembering(Logger):
    instances: list[Remembering] = []  # noqa: RUF012 - to be seen from outside

    def _init(self):
        self.seen, self.open = [self.config["x"]], True
        self.instances.append(self)

    def on_result(self, result):
        self.seen.append(result["loss"])

    def close(self):
        self.open = False


def test_loggers_of_the_older_kind(run):
    (trial,) = run(saving, config={"x": 5}, callbacks=[LegacyLoggerCallback([Remembering])]).trials
    (logger,) = Remembering.instances
    assert logger.seen == [5, 5, 4, 3]
    assert not logger.open
    assert logger.trial is trial
    assert logger.logdir == trial.logdir


def test_without_the_usual_files(run, monkeypatch):
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    analysis = run(saving, config={"x": 5}, callbacks=[LegacyLoggerCallback([JsonLogger])])
    (trial,) = analysis.trials
    assert {"params.json", "result.json"} <= set(os.listdir(trial.logdir))
    assert "progress.csv" not in os.listdir(trial.logdir)
    analysis = run(saving, config={"x": 5}, name="silent", callbacks=[LegacyLoggerCallback([])])
    assert not {"params.json", "result.json"} & set(os.listdir(analysis.trials[0].logdir))
    assert analysis.dataframe().loss[0] == 3
    assert len(next(iter(analysis.trial_dataframes.values()))) == 0


def test_the_usual_files_without_a_trial(tmp_path):
    logger = UnifiedLogger({"x": 1}, str(tmp_path), loggers=(JsonLogger, CSVLogger, TBXLogger))
    logger.on_result({"training_iteration": 1, "loss": 0.5})
    logger.update_config({"x": 2})
    logger.flush()
    logger.close()
    assert json.loads((tmp_path / "result.json").read_text())["loss"] == 0.5
    assert json.loads((tmp_path / "params.json").read_text()) == {"x": 2}
    assert (tmp_path / "progress.csv").read_text().splitlines()[1].endswith("0.5")
    assert list(tmp_path.glob("events.out.tfevents.*"))


def test_a_trainable_with_a_logger_of_its_own(tmp_path):
    class Halving(tune.Trainable):
        def step(self):
            return {"loss": 1 / 2**self.iteration}

    trainable = Halving(logger_creator=lambda config: JsonLogger(config, str(tmp_path)))
    trainable.train()
    trainable.train()
    trainable.stop()
    assert trainable.logdir == str(tmp_path)
    lines = (tmp_path / "result.json").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [1, 0.5]


def test_a_trainable_as_one_value():
    first, second = Counting(), Counting()
    first.train()
    second.restore_from_object(first.save_to_object())
    assert second.train()["count"] == 2
    assert second.iteration == 2


# -- tuners ---------------------------------------------------------------------------------------


def failing_at_first(config):
    tune.report(n=1)
    marker = Path(config["marker"])
    if not marker.exists():
        marker.touch()
        raise RuntimeError("the first time")


class Counter(tune.Callback):
    def __init__(self):
        self.results = 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.results += 1

    def get_state(self):
        return {"results": self.results}

    def set_state(self, state):
        self.results = state["results"]


def test_a_tuner_without_its_trainable_and_callbacks_that_remember(session, tmp_path):
    tuner = tune.Tuner(
        failing_at_first,
        param_space={"marker": str(tmp_path / "marker")},
        run_config=RunConfig(
            name="run", storage_path=str(tmp_path), verbose=0, callbacks=[Counter()]
        ),
    )
    assert len(tuner.fit().errors) == 1
    again = tune.Tuner.restore(str(tmp_path / "run"), resume_errored=True)
    assert not again.fit().errors
    (counter,) = again._local_tuner._run_config.callbacks
    assert counter.results == 2

    mended = lambda config: None  # noqa: E731
    mended.__name__ = "failing_at_first"
    other = tune.Tuner.restore(str(tmp_path / "run"), overwrite_trainable=mended)
    assert other._trainable is mended
    (tmp_path / "run" / "trainable.pkl").unlink()
    with pytest.raises(ValueError, match="give it to Tuner"):
        tune.Tuner.restore(str(tmp_path / "run"))


def test_what_an_unfinished_trial_had_reported_stays_when_it_is_left_alone(session, tmp_path):
    class Interrupting(tune.Callback):
        def on_step_begin(self, iteration, trials, **info):
            if any(trial.last_result for trial in trials):
                raise ArithmeticError("enough")

    def endless(config):
        for n in range(1, 10**6):
            tune.report({"n": n, "tag": config["tag"]})

    run_config = RunConfig(
        name="run", storage_path=str(tmp_path), verbose=0, callbacks=[Interrupting()]
    )
    tuner = tune.Tuner(endless, param_space={"tag": "a"}, run_config=run_config)
    with pytest.raises(ArithmeticError):
        tuner.fit()
    again = tune.Tuner.restore(str(tmp_path / "run"), endless, resume_unfinished=False)
    again._run_config.callbacks = None
    (result,) = again.fit()
    assert result.metrics["n"] >= 1
    assert result.metrics["tag"] == "a"
    stats = tune.ExperimentAnalysis(str(tmp_path / "run")).stats()
    assert stats["TERMINATED"] == 1
    assert stats["start_time"] <= stats["timestamp"]


def test_the_size_of_a_trainer_is_searched(session, tmp_path):
    def loop(config):
        tune.report({"workers": skate.train.get_context().get_world_size()})

    trainer = DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=1))
    tuner = tune.Tuner(
        trainer,
        param_space={"scaling_config": ScalingConfig(num_workers=tune.grid_search([1, 2]))},
        run_config=RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    assert [result.metrics["workers"] for result in tuner.fit()] == [1, 2]


class Exporting(tune.Trainable):
    def step(self):
        return {"done": True}

    def _export_model(self, export_formats, export_dir):
        ExportFormat.validate(export_formats)
        path = Path(export_dir, "exported")
        path.write_text("all")
        return {export_formats[0]: str(path)}


def test_formats_of_export(run):
    (trial,) = run(Exporting, export_formats=["model"]).trials
    assert Path(trial.logdir, "exported").read_text() == "all"
    with pytest.raises(tune.TuneError, match=r"got \['paper'\]"):
        ExportFormat.validate(["h5", "paper"])


class ExportingInVain(Exporting):
    def _export_model(self, export_formats, export_dir):
        raise OSError("the disk is full")


@pytest.mark.parametrize("settings", [{}, {"stop": {"training_iteration": 1}}])
def test_a_trial_whose_export_fails_has_failed(run, settings):
    kept = {"export_formats": ["model"], "raise_on_failed_trial": False, **settings}
    (trial,) = run(ExportingInVain, **kept).trials
    assert trial.status == "ERROR"
    assert "the disk is full" in Path(trial.error_file).read_text()
    with pytest.raises(tune.TuneError):
        run(ExportingInVain, export_formats=["model"])


# -- functions ------------------------------------------------------------------------------------


def test_the_reporter_of_a_function_knows_the_trial(run):
    def reporting(config, reporter):
        about = [reporter.trial_id, reporter.trial_name, reporter.logdir]
        reporter(about=about, timesteps_this_iter=3)
        reporter(about=about, timesteps_this_iter=4)

    (trial,) = run(reporting).trials
    assert trial.last_result["about"] == [trial.trial_id, str(trial), trial.logdir]
    assert trial.last_result["timesteps_total"] == 7


def test_parameters_that_are_references(run):
    values = skate.put([1, 2, 3])
    (trial,) = run(tune.with_parameters(lambda config, values: sum(values), values=values)).trials
    assert trial.last_result["_metric"] == 6


@pytest.mark.parametrize("who", ["scheduler", "search_alg"])
def test_who_decides_must_be_told_what_by(run, who, monkeypatch):
    makers = {
        "scheduler": lambda: tune.schedulers.ASHAScheduler(metric="score", mode="max"),
        "search_alg": lambda: OptunaSearch(metric="score", mode="max"),
    }
    space = {"x": tune.uniform(0, 1)}
    with pytest.raises(tune.TuneError, match="'score'"):
        run(lambda config: tune.report(other=1), config=space, **{who: makers[who]()})
    monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
    (trial,) = run(
        lambda config: tune.report(other=1), config=space, **{who: makers[who]()}
    ).trials
    assert trial.status == "TERMINATED"


def test_what_cannot_be_run(run):
    with pytest.raises(tune.TuneError, match=r"function of \(trial_id, result\)"):
        run(saving, stop=lambda result: True)
    with pytest.raises(tune.TuneError, match=r"has no \['speed'\]"):
        tune.run_experiments({"foo": {"run": saving, "speed": 3}})
    with pytest.raises(TypeError, match=r"tune\.Trainable"):
        tune.Experiment("foo", dict)


# -- spaces ---------------------------------------------------------------------------------------


def test_lists_of_domains_as_options_of_hyperopt():
    from skate.tune.search.hyperopt import HyperOptSearch

    options = [[tune.choice(["a", "b"]), 1], [tune.choice(["c", "d"]), {"e": tune.choice([2])}]]
    searcher = HyperOptSearch(
        {"x": tune.choice(options)}, metric="m", mode="max", random_state_seed=1
    )
    drawn = [searcher.suggest(str(number))["x"] for number in range(20)]
    assert {tuple(map(str, option)) for option in drawn} == {
        ("a", "1"), ("b", "1"), ("c", "{'e': 2}"), ("d", "{'e': 2}"),
    }  # fmt: skip


def test_bounds_beside_domains_in_bayesopt():
    from skate.tune.search.bayesopt import BayesOptSearch

    space = {"a": tune.uniform(5, 6), "b": (8.0, 9.0)}
    drawn = BayesOptSearch(space, metric="a", mode="max").suggest("0")
    assert 5 <= drawn["a"] <= 6
    assert 8 <= drawn["b"] <= 9


def test_resources_in_older_words():
    from skate.tune.resources import Resources

    asked = Resources(cpu=1, gpu=0.5, extra_cpu=2, custom_resources={"disk": 1})
    bundles = asked.as_placement_group_factory().bundles
    assert bundles == [{"CPU": 1, "GPU": 0.5, "disk": 1}, {"CPU": 2}]


def test_arguments_of_run_that_were_dropped(run, tmp_path):
    class Notes(tune.logger.Logger):
        def on_result(self, result):
            with open(tmp_path / "notes", "a") as file:
                file.write(f"{result['score']} ")

        def close(self):
            with open(tmp_path / "notes", "a") as file:
                file.write("end")

    analysis = run(
        lambda config: tune.report(score=3),
        loggers=[*tune.logger.DEFAULT_LOGGERS, Notes],
        storage_path=None,
        upload_dir=str(tmp_path / "up"),
        queue_trials=True,
        ray_auto_init=False,
        with_server=False,
    )
    assert (tmp_path / "notes").read_text() == "3 end"
    (trial,) = analysis.trials
    assert trial.local_path.startswith(str(tmp_path / "up"))
    with open(f"{trial.local_path}/result.json") as lines:
        assert len(lines.readlines()) == 1
    with pytest.raises(ValueError, match=r"with_server=True.*None or False"):
        run(lambda config: None, with_server=True)
    with pytest.raises(TypeError, match="'num_sample'; did you mean num_samples"):
        run(lambda config: None, num_sample=2)


def test_signatures_show_todays_arguments_and_help_the_others():
    shown = inspect.signature(tune.run).parameters
    older = ("keep_checkpoints_num", "checkpoint_freq", "local_dir", "upload_dir", "loggers")
    assert not set(older) & set(shown)
    assert {"checkpoint_config", "storage_path", "callbacks"} <= set(shown)
    for name in older:
        assert name in inspect.getdoc(tune.run)
    assert list(inspect.signature(tune.report).parameters)[:2] == ["metrics", "checkpoint"]
    with pytest.raises(TypeError, match=r"Tuner.restore\(\) has no parameter 'trainabel'"):
        tune.Tuner.restore("/nowhere", trainabel=None)


def test_checkpoints_are_configured_one_way(tmp_path):
    spec = {"run": lambda config: None, "storage_path": tmp_path}
    for given in ({"keep_checkpoints_num": 2}, {"checkpoint_config": {"num_to_keep": 2}}):
        experiment = Experiment.from_json("e", {**spec, **given})
        assert experiment.checkpoint_config.num_to_keep == 2
    with pytest.raises(ValueError, match=r"checkpoint_config, or keep_checkpoints_num.*not both"):
        tune.run(lambda config: None, checkpoint_config={}, checkpoint_freq=2)
