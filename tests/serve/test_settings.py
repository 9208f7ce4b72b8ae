"""Records of settings: which fields they take, and what they know of them afterwards."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from skate._core import notices
from skate.serve.autoscaling_policy import default_autoscaling_policy
from skate.serve.config import (
    AutoscalingConfig,
    AutoscalingPolicy,
    BackpressureConfig,
    ControllerOptions,
    HTTPOptions,
)


def test_fields_of_other_versions_are_left_out_with_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_said", set())
    later: dict[str, Any] = {"min_replicas": 2, "max_replicas": 4, "zzz_of_tomorrow": True}
    for made in (AutoscalingConfig(**later), AutoscalingConfig.of("autoscaling_config", later)):
        assert (made.min_replicas, made.max_replicas) == (2, 4)
    assert capsys.readouterr().err.count("no field 'zzz_of_tomorrow'") == 1


@pytest.mark.parametrize("cls", [BackpressureConfig, ControllerOptions])
def test_closed_settings_refuse_every_field_that_they_do_not_have(cls: type) -> None:
    with pytest.raises(ValueError, match="has no parameter 'zzz_of_tomorrow'"):
        cls(zzz_of_tomorrow=True)


def test_misspelled_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="did you mean 'max_replicas'"):
        AutoscalingConfig(max_replica=4)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="did you mean 'max_replicas'"):
        AutoscalingConfig(max_replica=4)  # type: ignore[call-arg]


def test_policies_by_their_older_names() -> None:
    config = AutoscalingConfig.of("autoscaling_config", {"_policy": {"name": "os:getcwd"}})
    assert config.policy == AutoscalingPolicy("os:getcwd")


@pytest.mark.parametrize(
    "function",
    [
        None,
        default_autoscaling_policy,
        "skate.serve.autoscaling_policy:default_autoscaling_policy",
        "ray.serve.autoscaling_policy:default_autoscaling_policy",
    ],
)
def test_the_usual_policy_by_all_its_names(function: object) -> None:
    policy = AutoscalingPolicy(policy_function=function)  # type: ignore[arg-type]
    assert policy.is_default_policy_function()
    assert policy.get_policy() is default_autoscaling_policy


def test_settings_know_which_fields_were_given() -> None:
    given = HTTPOptions(port=1, ssl_keyfile=None)
    assert given.model_fields_set == {"port", "ssl_keyfile"}
    assert AutoscalingPolicy("os:getcwd").model_fields_set == {"policy_function"}
    changed = given.copy(update={"host": "h"})
    for one in (changed, pickle.loads(pickle.dumps(changed))):
        assert one.model_dump(exclude_unset=True) == {"host": "h", "port": 1, "ssl_keyfile": None}
    assert changed.dict(exclude_unset=True, exclude_none=True) == {"host": "h", "port": 1}
