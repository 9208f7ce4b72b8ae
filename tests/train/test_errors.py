"""Errors of training and tuning travel whole: type, message and what they carry."""

from __future__ import annotations

import inspect
import pickle

import pytest

import skate.train
from skate._run import errors as run_errors
from skate.train import _errors as train_errors
from skate.train._workers import events
from skate.tune import error as tune_errors

MADE = {
    run_errors.NothingToRestoreError: lambda cls: cls("nothing at 'runs/nothing'"),
    run_errors.RecordedError: lambda cls: cls("builtins.ValueError", "odd", "Traceback …"),
    train_errors.WorkerGroupError: lambda cls: cls("two of them", {1: KeyError("a")}),
    train_errors.ControllerError: lambda cls: cls(ValueError("no room")),
    train_errors.LoopExitedError: lambda cls: cls(3),
    tune_errors.LostDataError: lambda cls: cls("runs/search", "param_space"),
    tune_errors.TrialTimeoutError: lambda cls: cls("trial_1", 10.0),
    tune_errors.MissingMetricError: lambda cls: cls("loss", "trial_1", {"accuracy": 1}),
}


def all_errors() -> list[type[BaseException]]:
    return [
        found
        for module in (run_errors, train_errors, tune_errors, events)
        for name, found in inspect.getmembers(module, inspect.isclass)
        # By its source: `__module__` is where users find it.
        if issubclass(found, BaseException) and f"class {name}(" in inspect.getsource(module)
    ]


def test_all_errors_are_found():
    assert set(MADE) <= set(all_errors())


@pytest.mark.parametrize("cls", all_errors(), ids=lambda cls: cls.__name__)
def test_a_copy_says_the_same(cls):
    error = MADE.get(cls, lambda cls: cls("what went wrong"))(cls)
    copy = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(error))))
    assert type(copy) is cls
    assert str(copy) == str(error) != ""
    carried, same = vars(error), vars(copy)
    assert {name: repr(value) for name, value in same.items()} == {
        name: repr(value) for name, value in carried.items()
    }


def test_failed_workers_keep_their_tracebacks():
    try:
        raise KeyError("rank one's own")
    except KeyError as raised:
        error = train_errors.failure_of({1: raised})
    assert 'raise KeyError("rank one\'s own")' in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, KeyError)
    assert isinstance(copy, train_errors.WorkerGroupError)
    assert str(copy) == str(error)
    assert copy.error_message == error.error_message
    assert isinstance(copy.worker_failures[1], KeyError)


def test_a_machine_that_was_taken_away_is_an_error_that_travels():
    info = skate.train.PreemptionInfo(1_000, {"b": [3, 1], "a": [2]})
    assert (info.preempted_node_ids, info.preempted_ranks) == (["a", "b"], [1, 2, 3])
    error = pickle.loads(pickle.dumps(skate.train.PreemptionError(info, drain_timed_out=True)))
    assert isinstance(error, skate.train.TrainingFailedError)
    assert (error.preemption_info, error.drain_timed_out) == (info, True)
    assert "[1, 2, 3]" in str(error)
