"""Where programs for Ray look for the parts of its tune."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from importlib import import_module

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
    "ray.tune.result": "DEFAULT_RESULTS_DIR TRAINING_ITERATION",
    "ray.tune.schedulers.pbt": "PopulationBasedTraining PopulationBasedTrainingReplay",
    "ray.tune.search.searcher": "ConcurrencyLimiter Searcher",
    "ray.tune.suggest.repeater": "Repeater",
    "ray.tune.suggest.search": "SearchAlgorithm",
    "ray.tune.suggest.search_generator": "SearchGenerator",
    "ray.tune.suggest.suggestion": "ConcurrencyLimiter Searcher",
    "ray.tune.suggest.variant_generator": "generate_variants grid_search",
    "ray.tune.syncer": "SyncConfig",
    "ray.tune.trainable": "FunctionTrainable Trainable wrap_function",
    "ray.tune.trainable.function_trainable": "FunctionTrainable wrap_function",
    "ray.tune.trainable.trainable_fn_utils": "Checkpoint get_checkpoint report",
    "ray.tune.trial": "ExportFormat Trial",
    "ray.tune.trial_runner": "TrialRunner",
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


def test_in_a_trial_there_is_none(tmp_path) -> None:
    import ray.tune

    def asking(config):
        seen = ray.tune.get_context().get_trial_name()
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
