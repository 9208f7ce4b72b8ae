"""Functions that are stepped by hand."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from skate import tune
from skate.tune.trainable import wrap_function


def counting(config, checkpoint_dir=None):
    start = int(Path(checkpoint_dir, "n").read_text()) if checkpoint_dir else 0
    for n in range(start + 1, 4):
        with tune.checkpoint_dir(n) as folder:
            Path(folder, "n").write_text(str(n))
        tune.report(n=n)


def test_each_step_is_a_report_and_the_end_repeats_the_last():
    trainable = wrap_function(counting)({})
    results = [trainable.train() for _ in range(4)]
    trainable.stop()
    assert [result["n"] for result in results] == [1, 2, 3, 3]
    assert [result["training_iteration"] for result in results[:3]] == [1, 2, 3]
    assert [result["done"] for result in results] == [False, False, False, True]


def test_it_goes_on_from_what_was_saved(tmp_path):
    first = wrap_function(counting)({})
    first.train()
    saved, value = first.save(str(tmp_path / "saved")), first.save_to_object()
    first.stop()
    second = wrap_function(counting)({})
    second.restore(saved)
    result = second.train()
    assert (result["n"], result["training_iteration"]) == (2, 2)
    assert second.reset({})
    assert second.train()["n"] == 1
    second.stop()
    third = wrap_function(counting)({})
    third.restore_from_object(value)
    assert third.train()["n"] == 2
    third.stop()


def test_it_raises_what_the_function_raises():
    def failing(config):
        tune.report(n=1)
        raise KeyError("broken")

    trainable = wrap_function(failing)({})
    assert trainable.train()["n"] == 1
    with pytest.raises(KeyError, match="broken"):
        trainable.train()


def test_its_folder_goes_with_it_outside_of_a_trial():
    trainable = wrap_function(counting)({})
    trainable.train()
    folder = Path(trainable.logdir)
    assert list(folder.iterdir())
    trainable.stop()
    del trainable
    gc.collect()
    assert not folder.exists()


def test_it_is_a_trainable_like_others(run):
    with pytest.raises(ValueError, match="no 'cpus': did you mean 'cpu'"):
        tune.with_resources(lambda config: None, {"cpus": 2})
    asking = tune.with_resources(lambda config: tune.report(n=7), {"cpu": 2})
    kind = wrap_function(asking, name="seven")
    (trial,) = run(kind).trials
    assert trial.last_result["n"] == 7
    assert str(trial).startswith("seven_")
    assert trial.placement_group_factory.required_resources == {"CPU": 2}
