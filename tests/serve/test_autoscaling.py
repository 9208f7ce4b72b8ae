"""The number of replicas follows the load: by decisions alone, and with processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve import _client
from skate.serve._application.specs import build
from skate.serve._controller.autoscaling import Autoscaler, by_ongoing_requests
from skate.serve._identity import DeploymentID, ReplicaID
from skate.serve._replica.load_reports import TimeWeightedAverage
from skate.serve._routing.queue_reports import QueueReporter
from skate.serve._status import ReplicaState
from skate.serve.autoscaling_policy import replica_queue_length_autoscaling_policy
from skate.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy
from tests.support import PATIENCE, Flag, eventually


def config(**changes: Any) -> AutoscalingConfig:
    settings = {
        "min_replicas": 0,
        "max_replicas": 10,
        "target_ongoing_requests": 2,
        "metrics_interval_s": 1,
        "look_back_period_s": 5,
        "upscale_delay_s": 0,
        "downscale_delay_s": 0,
    }
    return AutoscalingConfig(**{**settings, **changes})


@pytest.mark.parametrize(
    ("current", "total", "changes", "expected"),
    [
        (1, 2, {}, 1),
        (1, 2.1, {}, 2),
        (1, 20, {}, 10),
        (4, 2, {}, 1),
        (4, 0, {}, 0),
        (0, 0, {}, 0),
        (0, 1, {}, 1),
        (0, 9, {}, 5),
        (0, 1, {"upscaling_factor": 3}, 3),
        (2, 8, {"upscaling_factor": 0.5}, 3),
        (4, 0, {"downscaling_factor": 0.5}, 2),
        (2, 0, {"downscaling_factor": 0.1}, 1),
    ],
)
def test_replicas_for_a_load(
    current: int, total: float, changes: dict[str, Any], expected: int
) -> None:
    assert by_ongoing_requests(config(**changes), current, total) == expected


def test_a_policy_can_begin_with_what_the_load_asks_for() -> None:
    def one_more(context: AutoscalingContext) -> float:
        number, _ = replica_queue_length_autoscaling_policy(context)
        return number + 1

    case = Case(policy=one_more)
    case.load(0, 6)
    replica = ReplicaID("a", DeploymentID("model"))
    assert case.scaler.decide(case.config, 0, 1, [replica]) == 4
    assert case.decide(0, 0) == 2  # the first of them, and one


class Case:
    def __init__(self, **changes: Any) -> None:
        self.config = config(**changes)
        self.scaler = Autoscaler(DeploymentID("model"))

    def load(self, now: float, value: float, reporter: str = "r", kind: str = "running") -> None:
        self.scaler.report(self.config, now, reporter, kind, value)

    def decide(self, now: float, current: int) -> int:
        return self.scaler.decide(self.config, now, current, [])


def test_reporters_are_added_up_and_their_reports_averaged() -> None:
    case = Case()
    case.load(0, 2)
    case.load(1, 6)
    case.load(1, 4, "router", "queued")
    assert case.decide(1, 1) == 4
    assert case.decide(5.5, 1) == 5  # the first report is too long ago


def test_a_load_that_is_over_counts_less_and_less() -> None:
    case = Case(look_back_period_s=30)
    case.load(0, 8)
    case.load(1, 0)  # nothing more is told until there is something again
    assert [case.decide(now, 1) for now in (1, 3, 7)] == [2, 1, 1]
    assert case.decide(29, 1) == 1
    assert case.decide(32, 1) == 0


def test_a_reporter_that_fell_silent_is_forgotten() -> None:
    case = Case()
    case.load(0, 20)
    assert case.decide(0, 1) == 10
    assert case.decide(100, 10) == 0


def test_limits() -> None:
    case = Case(min_replicas=2, max_replicas=3)
    assert case.decide(0, 2) == 2
    case.load(0, 100)
    assert case.decide(0, 2) == 3


def test_a_change_is_made_when_it_has_been_wanted_long_enough() -> None:
    case = Case(upscale_delay_s=3, downscale_delay_s=5, look_back_period_s=0.5)
    case.load(0, 4)
    assert case.decide(0, 1) == 1
    case.load(2, 2)
    assert case.decide(2, 1) == 1  # no longer wanted: the wait begins anew
    case.load(3, 4)
    assert case.decide(3, 1) == 1
    case.load(6, 4)
    assert case.decide(6, 1) == 2
    case.load(7, 0)
    assert case.decide(7, 2) == 2
    assert case.decide(12, 2) == 0


def test_the_last_replica_may_wait_longer() -> None:
    case = Case(downscale_delay_s=1, downscale_to_zero_delay_s=10)
    assert case.decide(0, 3) == 3
    assert case.decide(2, 3) == 1
    assert case.decide(9, 1) == 1
    assert case.decide(10, 1) == 0


def test_nobody_waits_for_the_first_replica() -> None:
    case = Case(upscale_delay_s=1000)
    case.load(0, 1, kind="queued")
    assert case.decide(0, 0) == 1


def test_a_policy_of_ones_own() -> None:
    def policy(context: AutoscalingContext, extra: int) -> tuple[int, dict[str, int]]:
        seen = context.policy_state.get("seen", 0) + 1
        return int(context.total_num_requests) + extra + seen, {"seen": seen}

    case = Case(policy={"policy_function": policy, "policy_kwargs": {"extra": 1}})
    case.load(0, 3)
    assert case.decide(0, 1) == 5
    assert case.decide(0, 1) == 6


class Doubling:
    """A policy with arguments and a memory of its own."""

    def __init__(self, first: int) -> None:
        self.wanted = first

    def __call__(self, context: AutoscalingContext) -> int:
        self.wanted *= 2
        return self.wanted


def test_of_a_class_one_instance_is_asked() -> None:
    case = Case(policy={"policy_function": Doubling, "policy_kwargs": {"first": 1}})
    assert [case.decide(0, 1), case.decide(1, 2), case.decide(2, 4)] == [2, 4, 8]
    case.config = config(policy={"policy_function": Doubling, "policy_kwargs": {"first": 3}})
    assert case.decide(3, 8) == 6


@pytest.mark.parametrize(
    "policy", ["no_such_module:policy", lambda context: "many", lambda context: 1 / 0]
)
def test_a_policy_that_fails_changes_nothing(policy: Any) -> None:
    case = Case(policy=policy)
    assert case.decide(0, 3) == 3
    assert "The autoscaling policy failed" in case.scaler.failure


def test_a_policy_is_asked_also_where_there_is_no_load() -> None:
    case = Case()
    assert case.scaler.next_time(case.config, 0, 0) is None
    assert case.scaler.next_time(case.config, 0, 0, has_policy=True) == 1


def test_measurements_of_replicas_are_for_the_policy() -> None:
    one, other = (ReplicaID(tag, DeploymentID("model")) for tag in "ab")
    case = Case(look_back_period_s=5)
    case.scaler.record(case.config, 0, one, {"temperature": 20, "depth": 1})
    case.scaler.record(case.config, 4, one, {"temperature": 30})
    case.scaler.record(case.config, 4, other, {"temperature": 90})
    seen = case.scaler.context(case.config, 4, 2, [one, other])
    assert seen.aggregated_metrics == {"temperature": {one: 25, other: 90}, "depth": {one: 1}}
    assert seen.raw_metrics["temperature"][one] == [(0, 20), (4, 30)]
    seen = case.scaler.context(case.config, 4, 1, [one])
    assert seen.aggregated_metrics["temperature"] == {one: 25}  # the other one is gone


def test_averages_are_weighted_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 3.0, 4.0, 6.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    average = TimeWeightedAverage()
    average.change(3)  # after 1 s
    average.change(1)  # after 3 s
    assert average.take() == (0 + 6 + 1) / 4
    assert average.take() == 1


def test_nobody_is_told_of_queues_after_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    looked = threading.Event()

    def count() -> int:
        looked.set()
        return 1

    monkeypatch.setattr("skate.is_initialized", lambda: False)
    reporter = QueueReporter()
    reporter.watch("queue", 0.001, count, lambda name, waiting: told.append(waiting), lambda: True)
    reporter.something_waits()
    assert looked.wait(PATIENCE)
    eventually(lambda: "skate-serve-load" not in {each.name for each in threading.enumerate()})
    assert told == []


@pytest.mark.parametrize("urgent", [False, True])
def test_what_waits_for_a_moment_only_is_told_if_it_is_urgent(
    monkeypatch: pytest.MonkeyPatch, urgent: bool
) -> None:
    waiting = iter([3, 2])
    told: list[float] = []
    monkeypatch.setattr("skate.is_initialized", lambda: True)
    reporter = QueueReporter()
    reporter.watch(
        "queue",
        0.001,
        lambda: next(waiting, 0),
        lambda name, number: told.append(number),
        lambda: urgent,
    )
    reporter.something_waits()
    eventually(lambda: told[-1:] == [0])
    assert told == ([3, 2, 0] if urgent else [2, 0])


def test_from_zero_up_and_back(
    run_locally: Callable[..., Any], flag: Callable[[str], Flag]
) -> None:
    go = flag("go")

    @serve.deployment(
        max_ongoing_requests=1,
        autoscaling_config={
            "min_replicas": 0,
            "max_replicas": 2,
            "target_ongoing_requests": 1,
            "metrics_interval_s": 0.02,
            "look_back_period_s": 1,  # a reporter that gets no processor is not forgotten
            "upscale_delay_s": 0,
            "downscale_delay_s": 0.2,
        },
    )
    async def wait() -> str:
        while not go.is_set():
            await asyncio.sleep(0.001)
        return "done"

    def running() -> dict[str, int]:
        states = serve.status().applications["default"].deployments["wait"].replica_states
        return {state.value: count for state, count in states.items()}

    handle = run_locally(wait.bind())
    assert running() == {}
    responses = [handle.remote() for _ in range(4)]
    eventually(lambda: running() == {"RUNNING": 2})
    assert serve.status().applications["default"].status == "RUNNING"
    go.set()
    assert [response.result(timeout_s=PATIENCE) for response in responses] == ["done"] * 4
    eventually(lambda: running() == {})
    assert handle.remote().result(timeout_s=PATIENCE) == "done"


SOON = {
    "min_replicas": 1,
    "max_replicas": 3,
    "metrics_interval_s": 0.02,
    "look_back_period_s": 60,
    "upscale_delay_s": 0,
    "downscale_delay_s": 0,
}


def replicas(deployment: str) -> int:
    states = serve.status().applications["app"].deployments[deployment].replica_states
    return states.get(ReplicaState.RUNNING, 0)


def test_replicas_say_what_the_policy_goes_by(run_locally: Callable[..., Any]) -> None:
    def as_measured(context: AutoscalingContext) -> int:
        told = context.aggregated_metrics.get("wanted", {}).values()
        return int(max(told, default=1))

    @serve.deployment(autoscaling_config={**SOON, "policy": as_measured})
    class Measures:
        def record_autoscaling_stats(self) -> dict[str, float]:
            return {"wanted": 2}

    run_locally(Measures.bind(), name="app", route_prefix=None)
    eventually(lambda: replicas("Measures") == 2)


def test_a_policy_of_an_application_decides_for_all(run_locally: Callable[..., Any]) -> None:
    def in_turn(contexts: dict[DeploymentID, AutoscalingContext]) -> Any:
        asked = {id: context.policy_state.get("asked", 0) + 1 for id, context in contexts.items()}
        numbers = {id: 2 if id.name == "Second" and asked[id] > 2 else 1 for id in contexts}
        return numbers, {id: {"asked": number} for id, number in asked.items()}

    @serve.deployment(autoscaling_config=SOON)
    class First:
        def __init__(self, second: Any) -> None:
            pass

    @serve.deployment(autoscaling_config={**SOON, "policy": lambda context: 3})
    class Second:
        pass

    spec = build(First.bind(Second.bind()), "app", None)
    spec = spec._replace(autoscaling_policy=AutoscalingPolicy(in_turn))
    skate.get(_client.connect().controller.deploy.remote([spec]))
    eventually(lambda: (replicas("First"), replicas("Second")) == (1, 2))
