"""Helpers around a search."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from types import SimpleNamespace

import pytest

from skate import tune
from skate.tune import utils
from skate.tune.experiment import Trial


def test_dictionaries_keep_their_kind():
    nested = OrderedDict(a={"b": 1}, c=[2, 3])
    flat = utils.flatten_dict(nested, flatten_list=True)
    assert isinstance(flat, OrderedDict)
    assert flat == {"a/b": 1, "c/0": 2, "c/1": 3}
    back = utils.unflatten_list_dict(flat)
    assert isinstance(back, OrderedDict)
    assert back == nested
    with pytest.raises(TypeError, match="Cannot unflatten"):
        utils.unflatten_dict({"a": 1, "a/b": 2})


def test_what_keeps_a_function_from_being_sent(capsys):
    lock = threading.Lock()

    def with_lock(config):
        return lock

    assert utils.diagnose_serialization(with_lock) == {"lock"}
    assert "lock" in capsys.readouterr().out
    assert utils.diagnose_serialization(lambda config: 1) is True


class Counting(tune.Trainable):
    def setup(self, config):
        self.count = 0

    def step(self):
        self.count += 1
        return {"count": self.count}

    def save_checkpoint(self, checkpoint_dir):
        return {"count": self.count}

    def load_checkpoint(self, checkpoint):
        self.count = checkpoint["count"]


class Forgetful(Counting):
    def load_checkpoint(self, checkpoint):
        self._iteration = 0


def test_a_class_that_can_be_saved_and_one_that_cannot(session):
    assert utils.validate_save_restore(Counting, config={"a": 1}, use_object_store=True)
    with pytest.raises(ValueError, match="Forgetful does not go on"):
        utils.validate_save_restore(Forgetful)


def test_points_to_begin_with():
    utils.validate_warmstart(["a", "b"], [{"a": 1, "b": 2}, [3, 4]], [0.5, 0.6])
    utils.validate_warmstart(["a", "b"], [{"a": 1}], None, validate_point_name_lengths=False)
    with pytest.raises(TypeError, match="takes a list"):
        utils.validate_warmstart(["a"], {"a": 1}, None)
    with pytest.raises(TypeError, match="dictionaries or lists"):
        utils.validate_warmstart(["a"], [1], None)
    with pytest.raises(ValueError, match="2 parameters"):
        utils.validate_warmstart(["a", "b"], [{"a": 1}], None)
    with pytest.raises(ValueError, match="1 evaluated_rewards"):
        utils.validate_warmstart(["a"], [[1], [2]], [0.5])


def test_waiting_for_a_gpu(session, monkeypatch):
    in_use = iter([0.5, 0.0, 0.9, 0.9])

    class Gpu(SimpleNamespace):
        memoryUtil = property(lambda self: next(in_use))  # noqa: N815 - GPUtil's name

    gpus = [Gpu(id=0, uuid="GPU-a"), Gpu(id=1, uuid="GPU-b")]
    monkeypatch.setitem(sys.modules, "GPUtil", SimpleNamespace(getGPUs=lambda: gpus))
    assert utils.wait_for_gpu("1", delay_s=0)
    with pytest.raises(RuntimeError, match="90% of the memory of GPU GPU-a"):
        utils.wait_for_gpu("GPU-a", retry=2, delay_s=0)
    with pytest.raises(ValueError, match="no GPU 7"):
        utils.wait_for_gpu(7, delay_s=0)
    with pytest.raises(ValueError, match="number or a UUID"):
        utils.wait_for_gpu(1.5)
    with pytest.raises(RuntimeError, match="has no GPU"):
        utils.wait_for_gpu()
    monkeypatch.setitem(sys.modules, "GPUtil", None)
    with pytest.raises(RuntimeError, match="needs the package GPUtil"):
        utils.wait_for_gpu(0)


class TestTrials:
    def test_a_folder_s_name_has_no_reserved_characters(self):
        trial = Trial("PPO", config={"env": "ale_py:ALE/Pong-v5"}, experiment_tag="0_a=(1)<2>")
        assert not set('/()<>:"\\|?*') & set(trial.dirname)
        named = Trial("PPO", trial_dirname_creator=lambda trial: "a:b?c(d)")
        assert named.dirname == "a_b_c_d_"

    def test_a_criterion_that_is_never_reported_is_named_once(self, caplog):
        trial = Trial("mine", stopping_criterion={"loss": 1, "inner/score": 2})
        for _ in range(3):
            assert not trial.should_stop({"los": 5, "inner": {"score": 1}})
        (record,) = caplog.records
        words = "Stopping criterion 'loss' not found in result dict! Available keys are ['inner'"
        assert words in record.getMessage()
        assert trial.should_stop({"inner": {"score": 2}})

    def test_a_criterion_is_missed_also_where_another_ends_the_trial(self, caplog):
        trial = Trial("mine", stopping_criterion={"loss": 1, "score": 2})
        assert trial.should_stop({"score": 3})
        assert "'loss' not found" in caplog.text

    def test_a_trial_from_its_state(self):
        trial = Trial("mine", config={"a": (1, 2)}, trial_id="abcd1234")
        trial.create_placement_group_factory()
        state, _ = trial.get_json_state()
        copy = Trial.from_json_state(state, stub=True)
        assert copy.get_json_state()[0] == state
        assert copy.config == trial.config


def test_what_a_trial_has_come_to_can_be_made_up():
    trial = Trial("counting", stub=True)
    trial.run_metadata.last_result = {"loss": 1}
    assert trial.last_result == {"loss": 1}
    trial.last_result = {"loss": 2}
    assert trial.run_metadata.last_result == {"loss": 2}
