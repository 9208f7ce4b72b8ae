"""A trainer for JAX, with something in place of it: it is not among the requirements of tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from skate import train
from skate.train import ScalingConfig
from skate.train.jax import JaxConfig, JaxTrainer
from skate.train.jax import _config as connecting


class GroupOfOneProcess:
    """Two workers, both here; what the second is told comes last."""

    def __len__(self) -> int:
        return 2

    def execute_single(self, rank: int, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What JAX is asked."""
    found: list[Any] = []
    distributed = SimpleNamespace(
        initialize=lambda **given: found.append(given), shutdown=lambda: found.append("left")
    )
    config = SimpleNamespace(update=lambda name, value: found.append((name, value)))
    monkeypatch.setitem(
        sys.modules, "jax", SimpleNamespace(distributed=distributed, config=config)
    )
    monkeypatch.setattr(connecting, "_arguments", {})
    monkeypatch.setenv("JAX_PLATFORMS", "x")  # so that it is as before afterwards
    del os.environ["JAX_PLATFORMS"]
    return found


def start(config: JaxConfig) -> None:
    backend: Any = config.backend_cls()
    backend.on_start(GroupOfOneProcess(), config)


@pytest.mark.parametrize(
    ("config", "platform"),
    [
        (JaxConfig(use_tpu=True), "tpu"),
        (JaxConfig(use_gpu=True), "cuda"),
        (JaxConfig(use_cpu=True), "cpu"),
    ],
)
def test_workers_are_connected_for_the_loop(calls, config, platform):
    start(config)
    with connecting.connected():
        chosen, arguments = calls
    assert chosen == ("jax_platforms", platform)
    assert (arguments["num_processes"], arguments["process_id"]) == (2, 1)
    assert ":" in arguments["coordinator_address"]
    assert calls[2:] == ["left"]


def test_who_fails_does_not_wait_for_the_others(calls):
    start(JaxConfig(use_cpu=True))
    with pytest.raises(ValueError, match="broken"), connecting.connected():
        raise ValueError("broken")
    assert "left" not in calls


def test_a_platform_of_the_users_stays(calls, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    start(JaxConfig(use_tpu=True))
    with connecting.connected():
        assert calls[0] == ("jax_platforms", "cpu")


def test_several_platforms_are_none():
    with pytest.raises(ValueError, match=r"\['use_tpu', 'use_cpu'\]"):
        JaxConfig(use_tpu=True, use_cpu=True)


def test_without_accelerators_each_is_alone(calls):
    start(JaxConfig())
    with connecting.connected():
        pass
    assert calls == []


def test_the_accelerators_are_those_of_the_workers():
    def backend(**scaling: Any) -> Any:
        return JaxTrainer(lambda: None, scaling_config=ScalingConfig(**scaling)).backend_config

    assert backend() == JaxConfig()
    assert backend(use_gpu=True) == JaxConfig(use_gpu=True)
    assert backend(use_tpu=True).to_dict() == {
        "use_tpu": True, "use_gpu": False, "use_cpu": False,
    }  # fmt: skip


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_without_jax(run_config, workers):
    def loop() -> None:
        train.report({"size": train.get_context().get_world_size()})

    scaling = ScalingConfig(num_workers=workers)
    result = JaxTrainer(loop, scaling_config=scaling, run_config=run_config()).fit()
    assert result.metrics["size"] == max(workers, 1)
