"""Where programs for Ray look for the parts of its tune."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import skate
from skate import tune
from skate.compat import ray as compat

PATHS = {
    "ray._private.dict": "deep_update flatten_dict merge_dicts unflatten_list_dict",
    "ray.rllib.utils.metrics": "ENV_RUNNER_RESULTS EPISODE_RETURN_MEAN",
    "ray.tune.context": "TuneContext get_context",
    "ray.tune.execution.trial_runner": "TrialRunner",
    "ray.tune.execution.tune_controller": "TuneController",
    "ray.tune.experiment": "Experiment Trial convert_to_experiment_list",
    "ray.tune.experiment.experiment": "Experiment _convert_to_experiment_list",
    "ray.tune.experiment.trial": "ExportFormat Trial",
    "ray.tune.function_runner": "wrap_function",
    "ray.tune.logger": "CSVLogger JsonLogger LegacyLoggerCallback Logger NoopLogger TBXLogger",
    "ray.tune.logger.aim": "AimLoggerCallback",
    "ray.tune.logger.comet": "CometLoggerCallback",
    "ray.tune.logger.csv": "CSVLoggerCallback",
    "ray.tune.logger.json": "JsonLoggerCallback",
    "ray.tune.logger.logger": "LoggerCallback pretty_print",
    "ray.tune.logger.mlflow": "MLflowLoggerCallback",
    "ray.tune.logger.tensorboardx": "TBXLoggerCallback",
    "ray.tune.logger.wandb": "WandbLoggerCallback",
    "ray.train._internal.data_config": "DataConfig",
    "ray.tune.result": "DEFAULT_EXPERIMENT_INFO_KEYS DEFAULT_RESULTS_DIR TRAINING_ITERATION",
    "ray.tune.schedulers.pbt": "PopulationBasedTraining PopulationBasedTrainingReplay",
    "ray.tune.search.searcher": "ConcurrencyLimiter Searcher",
    "ray.tune.suggest.repeater": "Repeater",
    "ray.tune.suggest.search": "SearchAlgorithm",
    "ray.tune.suggest.search_generator": "SearchGenerator",
    "ray.tune.suggest.suggestion": "ConcurrencyLimiter Searcher",
    "ray.tune.suggest.variant_generator": "generate_variants grid_search",
    "ray.tune.syncer": "SyncConfig",
    "ray.tune.track": "log trial_dir",
    "ray.tune.trainable": "FunctionTrainable Trainable wrap_function",
    "ray.tune.trainable.function_trainable": "FunctionTrainable wrap_function",
    "ray.tune.trainable.trainable_fn_utils": "Checkpoint get_checkpoint report",
    "ray.tune.trial": "ExportFormat Trial",
    "ray.tune.trial_runner": "TrialRunner",
    "ray.tune.tune": "_Config run run_experiments",
    "ray.tune.utils": "date_str diagnose_serialization validate_save_restore wait_for_gpu",
    "ray.tune.utils.callback": "Callback _initialize_env_callbacks",
    "ray.tune.utils.placement_groups": "PlacementGroupFactory",
    "ray.tune.utils.util": "flatten_dict retry_fn validate_warmstart wait_for_gpu",
}


@pytest.fixture(autouse=True)
def as_ray(leaves_nothing: None) -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


@pytest.mark.parametrize("path", PATHS)
def test_names_are_found(path: str) -> None:
    module = import_module(path)
    for name in PATHS[path].split():
        assert hasattr(module, name)


def test_one_class_each() -> None:
    from ray.tune.logger.csv import CSVLoggerCallback
    from ray.tune.search.searcher import ConcurrencyLimiter
    from ray.tune.trial import Trial

    assert Trial is tune.experiment.Trial
    assert CSVLoggerCallback is tune.logger.CSVLoggerCallback
    assert ConcurrencyLimiter is tune.search.ConcurrencyLimiter


def test_experiments_as_a_list() -> None:
    from ray.tune.experiment import Experiment, convert_to_experiment_list

    one = Experiment("one", lambda config: None)
    assert convert_to_experiment_list(None) == []
    assert convert_to_experiment_list(one) == convert_to_experiment_list([one]) == [one]
    with pytest.raises(tune.TuneError, match="got 'one'"):
        convert_to_experiment_list("one")


def test_a_space_that_is_an_object(tmp_path) -> None:
    from ray.tune.tune import _Config

    class Space(_Config):
        def to_dict(self):
            return {"x": tune.grid_search([1, 2])}

    def objective(config):
        tune.report({"x": config["x"]})

    skate.init(num_cpus=1)
    try:
        run_config = tune.RunConfig(storage_path=tmp_path, verbose=0)
        fitted = tune.Tuner(objective, param_space=Space(), run_config=run_config).fit()
        analysis = tune.run(objective, config=Space(), storage_path=str(tmp_path), verbose=0)
        with pytest.raises(ValueError, match="dictionary"):
            tune.run(objective, config="not allowed")
    finally:
        skate.shutdown()
    assert sorted(result.metrics["x"] for result in fitted) == [1, 2]
    assert sorted(trial.last_result["x"] for trial in analysis.trials) == [1, 2]


def test_algorithms_are_known_without_a_call() -> None:
    import ray.rllib  # noqa: F401

    experiment = tune.Experiment("pong", "PPO", config={"env": "Pong"}, num_samples=2)
    generator = tune.search.BasicVariantGenerator()
    generator.add_configurations([experiment])
    assert str(generator.next_trial()).startswith("PPO_Pong_")


def test_trials_to_test_with(tmp_path) -> None:
    from ray.tune.utils.mock import TrialStatusSnapshot, TrialStatusSnapshotTaker
    from ray.tune.utils.mock_trainable import MOCK_TRAINABLE_NAME, register_mock_trainable

    register_mock_trainable()
    states = TrialStatusSnapshot()
    assert not states.all_trials_are_terminated()
    skate.init(num_cpus=2)
    try:
        (trial,) = tune.run(
            MOCK_TRAINABLE_NAME,
            config={"height": 2, "mock_error": True},
            stop={"training_iteration": 3},
            checkpoint_freq=1,
            max_failures=1,
            storage_path=str(tmp_path),
            callbacks=[TrialStatusSnapshotTaker(states)],
            verbose=0,
        ).trials
    finally:
        skate.shutdown()
    assert 1 < trial.last_result["episode_reward_mean"] < 2
    assert trial.num_failures == 1
    assert states.max_running_trials() == 1
    assert states.all_trials_are_terminated()


def test_results_that_are_tracked(tmp_path) -> None:
    from ray.tune import track

    def tracking(config):
        for step in range(2):
            track.log(score=step * config["factor"], folder=track.trial_dir())

    skate.init(num_cpus=1)
    try:
        (trial,) = tune.run(
            tracking, config={"factor": 3}, storage_path=str(tmp_path), verbose=0
        ).trials
    finally:
        skate.shutdown()
    assert trial.last_result["score"] == 3
    assert trial.last_result["training_iteration"] == 2
    assert trial.last_result["folder"] == trial.path


def test_what_is_logged_to_the_logger_of_ray_is_in_the_files_of_a_trial(tmp_path) -> None:
    def logging_both(config):
        import logging

        import ray

        ray.logger.info("by Ray's name")
        logging.getLogger("skate").info("by skate's")
        return {"done": True}

    skate.init(num_cpus=1)
    try:
        (trial,) = tune.run(
            logging_both, storage_path=str(tmp_path), log_to_file=True, verbose=0
        ).trials
    finally:
        skate.shutdown()
    written = Path(trial.path, "stderr").read_text().splitlines()
    assert [line.rpartition(": ")[2] for line in written] == ["by Ray's name", "by skate's"]


class _Counting(tune.Callback):
    """Counts results, and takes the count up again."""

    def __init__(self) -> None:
        self.count = 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.count += 1

    def get_state(self):
        return {"count": self.count}

    def set_state(self, state):
        self.count = state["count"]


def test_a_list_of_callbacks_keeps_their_states(tmp_path):
    from ray.tune.callback import Callback, CallbackList

    told = CallbackList([Callback(), _Counting()])
    for number in range(3):
        told.on_trial_result(iteration=number, trials=[], trial=None, result={})
    told.save_to_dir(str(tmp_path))
    other = CallbackList([Callback(), _Counting()])
    assert other.can_restore(str(tmp_path))
    other.restore_from_dir(str(tmp_path))
    assert other.callbacks[1].count == 3
    with pytest.raises(AttributeError, match="on_nothing"):
        _ = told.on_nothing


def test_callbacks_without_states_write_nothing(tmp_path):
    from ray.tune.callback import Callback, CallbackList

    told = CallbackList([Callback()])
    told.save_to_dir(str(tmp_path))
    assert not told.can_restore(str(tmp_path))
    with pytest.raises(RuntimeError, match="no states"):
        told.restore_from_dir(str(tmp_path))


def test_another_attempt_where_one_has_failed() -> None:
    from ray.tune.utils.util import retry_fn

    attempts: list[int] = []

    def fails_once() -> None:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            raise KeyError("the first")

    assert retry_fn(fails_once, KeyError, sleep_time=0)
    assert attempts == [0, 1]
    gate = threading.Event()
    assert not retry_fn(gate.wait, num_retries=2, sleep_time=0, timeout=0.01)
    gate.set()


def test_outside_of_a_trial_there_is_a_warning() -> None:
    import ray.tune
    from ray.tune.trainable.trainable_fn_utils import report

    with pytest.warns(UserWarning, match="executed by a Tuner"):
        context = ray.tune.get_context()
    assert context.get_trial_id() is context.get_trial_dir() is None
    assert context.get_world_size() == 1
    with pytest.warns(UserWarning, match="`get_checkpoint` is meant"):
        assert ray.tune.get_checkpoint() is None
    with pytest.warns(UserWarning, match="`report` is meant"):
        report({"loss": 1})
    assert pickle.loads(pickle.dumps(report)) is report is ray.tune.report


def test_outside_of_a_run_there_is_a_warning() -> None:
    from ray.air import session

    with pytest.warns(UserWarning, match="`report` is meant"):
        session.report({"loss": 1})
    answers = {"get_world_size": 1, "get_world_rank": 0, "get_trial_name": None}
    for name, answer in {**answers, "get_checkpoint": None, "get_dataset_shard": None}.items():
        with pytest.warns(UserWarning, match=f"`{name}` is meant"):
            assert getattr(session, name)() == answer
    assert pickle.loads(pickle.dumps(session.get_world_rank)) is session.get_world_rank


def test_in_a_trial_there_is_none(tmp_path) -> None:
    import ray.air
    import ray.tune

    def asking(config):
        seen = ray.tune.get_context().get_trial_name()
        assert ray.air.session.get_trial_name() == seen
        ray.tune.report({"name": seen, "first": ray.tune.get_checkpoint() is None})

    skate.init(num_cpus=1)
    try:
        run = ray.tune.RunConfig(storage_path=str(tmp_path), verbose=0)
        (result,) = ray.tune.Tuner(asking, run_config=run).fit()
    finally:
        skate.shutdown()
    assert result.metrics["name"].startswith("asking_")
    assert result.metrics["first"]


def test_results_go_where_ray_puts_them(monkeypatch, tmp_path) -> None:
    from ray.tune import Experiment

    monkeypatch.delenv("SKATE_STORAGE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Experiment("one", lambda config: None).path == str(tmp_path / "ray_results" / "one")
