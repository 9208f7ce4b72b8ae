"""Configurations: all eras' parameters, and clear errors for what cannot be."""

from __future__ import annotations

import re
from typing import Any

import pytest

from skate._run.callbacks import UserCallback
from skate._run.config import CheckpointConfig, FailureConfig, LoggingConfig, RunConfig
from skate._run.config_checks import as_config, default_storage_path
from skate._run.scaling_config import ScalingConfig


def test_a_worker_takes_a_cpu_or_a_gpu():
    assert ScalingConfig(num_workers=2).total_resources == {"CPU": 2}
    assert ScalingConfig(num_workers=2, use_gpu=True).total_resources == {"GPU": 2}
    config = ScalingConfig(use_gpu=True, resources_per_worker={"CPU": 3, "special": 1})
    assert config.num_cpus_per_worker == 3
    assert config.num_gpus_per_worker == 1
    assert config.additional_resources_per_worker == {"special": 1}


_SLICE = {
    "use_tpu": True, "topology": "2x2x2", "accelerator_type": "TPU-V4", "num_workers": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "per_worker"),
    [
        ({"use_tpu": True}, {"TPU": 1}),
        ({"use_tpu": True, "resources_per_worker": {"CPU": 2}}, {"CPU": 2, "TPU": 1}),
        (
            {**_SLICE, "resources_per_worker": {"CPU": 2}},
            {"CPU": 2, "TPU": 4, "accelerator_type:TPU-V4": 0.001},
        ),
        (_SLICE, {"TPU": 4, "CPU": 1, "accelerator_type:TPU-V4": 0.001}),
        (
            {**_SLICE, "topology": "2x4", "accelerator_type": "v6e-8", "num_workers": 1},
            {"TPU": 8, "CPU": 1, "accelerator_type:v6e-8": 0.001},
        ),
    ],
)
def test_tpus_of_each_worker(wanted, per_worker):
    config = ScalingConfig(**wanted)
    assert config._resources_per_worker_not_none == per_worker
    assert config.num_tpus_per_worker == per_worker["TPU"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_workers": -1}, "0 or more"),
        ({"num_workers": (3, 2)}, "not the larger one"),
        ({"num_workers": (0, 2)}, "at least 1"),
        ({"num_workers": "two"}, "num_workers"),
        ({"resources_per_worker": {"GPU": 1}}, "use_gpu"),
        ({"use_gpu": True, "resources_per_worker": {"GPU": 0}}, "GPU"),
        ({"placement_strategy": "CLOSE"}, "STRICT_PACK"),
        ({"use_tpu": True, "use_gpu": True}, "both"),
        ({"use_tpu": True, "num_workers": 2}, "`topology` must be"),
        ({"use_tpu": True, "num_workers": 2, "topology": "2x2x2"}, "`accelerator_type` must be"),
        ({**_SLICE, "num_workers": 3}, "multiple of 2"),
        ({**_SLICE, "resources_per_worker": {"TPU": 1}, "num_workers": 4}, "multiple of 8"),
        ({**_SLICE, "resources_per_worker": {"TPU": 3}}, "8 TPUs"),
        ({**_SLICE, "resources_per_worker": {"TPU": 0}}, "positive"),
        ({**_SLICE, "topology": "2by2"}, "'2x2x2'; got '2by2'"),
        ({**_SLICE, "accelerator_type": "T4"}, "got 'T4'"),
        ({**_SLICE, "label_selector": {"zone": "a"}}, "label_selector"),
        ({"resources_per_worker": {"TPU": 1}}, "use_tpu=True"),
        ({"topology": "2x2"}, "use_tpu=True"),
        ({"num_workers": 2, "label_selector": [{"zone": "a"}]}, "same length"),
    ],
)
def test_impossible_scaling(wrong, message):
    with pytest.raises(ValueError, match=message):
        ScalingConfig(**wrong)


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (FailureConfig, {"max_failures": -2}),
        (FailureConfig, {"fail_fast": "maybe"}),
        (FailureConfig, {"fail_fast": True, "max_failures": 1}),
        (CheckpointConfig, {"num_to_keep": 0}),
        (CheckpointConfig, {"checkpoint_score_order": "best"}),
        (CheckpointConfig, {"checkpoint_frequency": -1}),
        (LoggingConfig, {"log_level": "LOUD"}),
        (FailureConfig, {"max_failures": "3"}),
        (CheckpointConfig, {"num_to_keep": 1.5}),
    ],
)
def test_impossible_settings(cls, wrong):
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        cls(**wrong)


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (ScalingConfig, {"resources_per_worker": 4}),
        (ScalingConfig, {"resources_per_worker": {"CPU": "2"}}),
        (ScalingConfig, {"use_gpu": "yes"}),
        (CheckpointConfig, {"checkpoint_score_attribute": 5}),
        (RunConfig, {"name": 5}),
        (RunConfig, {"storage_path": 5}),
        (RunConfig, {"callbacks": print}),
    ],
)
def test_settings_of_another_kind(cls, wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(TypeError, match=f"{name} is .*; got {re.escape(repr(value))}"):
        cls(**wrong)


@pytest.mark.parametrize("name", ["../out", "/root", "a/../../out", "", "~/here"])
def test_a_name_does_not_lead_out_of_the_place_of_runs(name):
    with pytest.raises(ValueError, match="inside of storage_path"):
        RunConfig(name=name)


@pytest.mark.parametrize("wrong", [5, UserCallback])
def test_what_is_no_callback(wrong):
    with pytest.raises(TypeError, match=f"callbacks are instances.*got {re.escape(repr(wrong))}"):
        RunConfig(callbacks=[wrong])


def test_a_dict_is_a_configuration_and_unknown_names_are_named():
    assert as_config(ScalingConfig, {"num_workers": 2}).num_workers == 2
    assert as_config(ScalingConfig, None) == ScalingConfig()
    with pytest.raises(ValueError, match="no parameter 'workers'; did you mean num_workers"):
        as_config(ScalingConfig, {"workers": 2})
    with pytest.raises(TypeError, match="ScalingConfig"):
        as_config(ScalingConfig, 2)


def test_verbose_is_a_number_or_yes_or_no():
    assert [RunConfig(verbose=given).verbose for given in (False, True, 2, None)] == [
        0,
        1,
        2,
        None,
    ]
    with pytest.raises(ValueError, match="whole number"):
        RunConfig(verbose=-1)


def test_the_place_of_runs(monkeypatch, tmp_path):
    assert RunConfig(storage_path=tmp_path).storage_path == str(tmp_path)
    assert RunConfig(local_dir=str(tmp_path)).storage_path == str(tmp_path)
    monkeypatch.setenv("SKATE_STORAGE", str(tmp_path))
    assert default_storage_path() == str(tmp_path)


def test_shows_what_differs_from_the_defaults():
    assert repr(RunConfig()) == "RunConfig()"
    assert repr(ScalingConfig(num_workers=2)) == "ScalingConfig(num_workers=2)"


@pytest.mark.parametrize("trainer_resources", [None, {}, {"CPU": 2, "GPU": 1}])
@pytest.mark.parametrize("num_workers", [None, 1, 3])
@pytest.mark.parametrize("resources_per_worker", [None, {}, {"CPU": 2}])
def test_scaling_as_bundles_and_back(
    trainer_resources: Any, num_workers: Any, resources_per_worker: Any
) -> None:
    scaling = ScalingConfig(
        trainer_resources=trainer_resources,
        num_workers=num_workers,
        resources_per_worker=resources_per_worker,
    )
    bundles = scaling.as_placement_group_factory()
    again = ScalingConfig.from_placement_group_factory(bundles)
    assert again == scaling
    assert again.as_placement_group_factory() == bundles


def test_scaling_is_equal_if_it_asks_for_the_same() -> None:
    assert ScalingConfig(num_workers=2) == ScalingConfig(
        num_workers=2, resources_per_worker={"CPU": 1}
    )
    assert ScalingConfig(num_workers=2) != ScalingConfig(num_workers=3)
    assert ScalingConfig(num_workers=(1, 2)) != ScalingConfig(num_workers=2)
    assert ScalingConfig(num_workers={"grid_search": [1, 2]}) == ScalingConfig(
        num_workers={"grid_search": [1, 2]}
    )


def test_what_is_no_configuration() -> None:
    for kind in (TypeError, ValueError):  # Ray raises the latter
        with pytest.raises(
            kind, match="expected a RunConfig or a dict of its parameters; got str"
        ):
            as_config(RunConfig, "invalid")
