"""The policy that counts tasks in a queue: its broker is one of Kombu's, in this process."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import kombu
import pytest

from skate.compat import ray as compat
from skate.serve._autoscaling_config import AutoscalingContext
from skate.serve._identity import DeploymentID
from skate.serve.async_inference_autoscaling_policy import AsyncInferenceAutoscalingPolicy
from skate.serve.config import AutoscalingConfig
from tests.support import eventually

CONFIG = AutoscalingConfig(target_ongoing_requests=2, max_replicas=10)


def context(replicas: int, requests: float = 0.0) -> AutoscalingContext:
    told: dict[str, Any] = dict.fromkeys(AutoscalingContext.__dataclass_fields__)
    told.update(
        deployment_id=DeploymentID("d"),
        current_num_replicas=replicas,
        total_num_requests=requests,
        config=CONFIG,
    )
    return AutoscalingContext(**told)


def put(queue: str, tasks: int) -> None:
    with kombu.Connection("memory://") as broker, broker.SimpleQueue(queue) as there:
        for _ in range(tasks):
            there.put({})


def policy(queue: str, interval: float = 0.0) -> AsyncInferenceAutoscalingPolicy:
    return AsyncInferenceAutoscalingPolicy("memory://", queue, poll_interval_s=interval)


def test_tasks_that_wait_count_as_requests_do() -> None:
    put("busy", 5)
    asked = policy("busy")
    eventually(lambda: asked(context(1)) == (2.5, {"queue_length": 5}))
    assert asked(context(3, requests=1.0))[0] == 3.0


def test_a_task_needs_a_first_replica() -> None:
    put("first", 3)
    asked = policy("first")
    eventually(lambda: asked(context(0))[0] == 1.0)


def test_a_queue_that_is_not_there_yet_is_empty(caplog: pytest.LogCaptureFixture) -> None:
    asked = policy("nobody")
    for _ in range(3):
        assert asked(context(0)) == (0.0, {"queue_length": 0})
    assert asked._asker is not None
    asked._asker.join()
    assert not caplog.records


def test_the_last_number_holds_while_the_broker_does_not_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("lost", 4)
    asked = policy("lost")
    eventually(lambda: asked(context(1))[0] == 2.0)
    monkeypatch.setattr(asked, "_broker", "amqp://127.0.0.1:1//")
    with caplog.at_level(logging.WARNING, "skate.serve"):
        eventually(lambda: [asked(context(1)), *caplog.records][1:])
    assert "tasks wait in 'lost' is not known" in caplog.text
    assert asked(context(1))[0] == 2.0


def test_the_broker_is_asked_now_and_then() -> None:
    put("slow", 2)
    asked = policy("slow", interval=3600)
    eventually(lambda: asked(context(1))[0] == 1.0)
    put("slow", 2)
    first = asked._asker
    for _ in range(5):
        assert asked(context(1))[0] == 1.0
    assert asked._asker is first


def test_programs_for_ray_find_it_by_its_name() -> None:
    compat.install()
    try:
        found = importlib.import_module("ray.serve.async_inference_autoscaling_policy")
        assert found.AsyncInferenceAutoscalingPolicy is AsyncInferenceAutoscalingPolicy
        assert importlib.import_module("ray.serve.gang").GangContext.__name__ == "GangContext"
    finally:
        compat.uninstall()
