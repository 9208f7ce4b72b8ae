"""When trials and searches are over."""

import datetime
import pickle

import pytest

from skate.tune import stopper as stoppers
from skate.tune.stopper import (
    CombinedStopper,
    ExperimentPlateauStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    TimeoutStopper,
    TrialPlateauStopper,
)
from skate.tune.stopper._criteria import as_stopper


def answers(stopper, values, trial="a"):
    return [stopper(trial, {"m": value}) for value in values]


def test_a_number_of_results():
    stopper = MaximumIterationStopper(2)
    assert answers(stopper, [1, 1]) == [False, True]
    assert answers(stopper, [1], "b") == [False]
    assert not stopper.stop_all()


def test_a_function():
    stopper = FunctionStopper(lambda trial_id, result: result["m"] > 3)
    assert answers(stopper, [1, 5]) == [False, True]


def test_a_plateau_of_a_trial():
    stopper = TrialPlateauStopper("m", std=0.1, num_results=3, grace_period=4)
    assert answers(stopper, [1, 1, 1, 1]) == [False, False, False, True]
    assert answers(stopper, [1, 2, 3, 4, 5], "b") == [False] * 5
    beyond = TrialPlateauStopper(
        "m", num_results=2, grace_period=1, metric_threshold=5, mode="max"
    )
    assert answers(beyond, [1, 1, 7, 7]) == [False, False, False, True]
    for threshold in (5, 0):
        with pytest.raises(ValueError, match="mode"):
            TrialPlateauStopper("m", metric_threshold=threshold)


def test_a_plateau_of_the_experiment():
    stopper = ExperimentPlateauStopper("m", top=2, std=0.001, patience=1)
    assert answers(stopper, [5, 3, 1, 1]) == [False, False, False, True]
    assert stopper.stop_all()
    for wrong in ({"mode": "up"}, {"top": 1}, {"std": 0}, {"patience": -1}):
        with pytest.raises(ValueError, match="takes"):
            ExperimentPlateauStopper("m", **wrong)


def test_a_time():
    assert not TimeoutStopper(1000).stop_all()
    assert TimeoutStopper(datetime.timedelta(seconds=0)).stop_all()
    assert not answers(TimeoutStopper(0), [1])[0]
    kept = TimeoutStopper(5000)
    kept.stop_all()
    assert 4000 < pickle.loads(pickle.dumps(kept)).seconds_left <= 5000
    with pytest.raises(ValueError, match="'soon'"):
        TimeoutStopper("soon")


def test_several_see_every_result():
    counting = MaximumIterationStopper(3)
    both = CombinedStopper(FunctionStopper(lambda t, r: r["m"] == 2), counting)
    assert answers(both, [1, 2, 1]) == [False, True, True]
    assert CombinedStopper(NoopStopper(), TimeoutStopper(0)).stop_all()


def test_every_spelling():
    assert as_stopper(None) is None
    assert as_stopper({}) is None
    assert as_stopper({"m": 5, "n/o": 1})("a", {"m": 1, "n": {"o": 2}})
    assert not as_stopper({"m": 5})("a", {"other": 9})
    assert as_stopper(lambda t, r: True)("a", {})
    assert isinstance(as_stopper([NoopStopper()]), CombinedStopper)
    assert as_stopper({"m": 1}, time_budget_s=0).stop_all()
    for wrong in (3, [1], "soon"):
        with pytest.raises(ValueError, match="stop"):
            as_stopper(wrong)


def test_all_are_stoppers():
    assert all(issubclass(getattr(stoppers, name), Stopper) for name in stoppers.__all__)
