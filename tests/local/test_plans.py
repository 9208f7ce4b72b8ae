"""Options worked out into plans, without an engine."""

from __future__ import annotations

import importlib.metadata
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from skate._core import serialization
from skate.engine.local.archives import Archives
from skate.engine.local.hub.groups import HubGroup
from skate.engine.local.hub.plans import Planner, concurrency
from skate.engine.local.hub.resources import to_units
from skate.engine.local.hub.state import SessionFacts
from skate.engine.specs import ActorMeta, ActorOptions, CallOptions, TaskOptions
from tests.local.fakes import Machine

META = ActorMeta("A", "m", {})


class Bench:
    def __init__(self, **runtime_env: Any) -> None:
        self.machine = Machine(cpus=4, GPU=2)
        self.actors: dict[int, Any] = {}
        self.wanted: list[Any] = []  # environments
        info = SessionFacts("default", "01", "here", {}, runtime_env, {})
        self.planner = Planner(
            threading.RLock(),
            info,
            self.actors,
            self.machine.scheduler,
            lambda wanted, when_done: self.wanted.append(wanted),
            Archives("nowhere"),
        )

    def group(self, *bundles: dict[str, float]) -> Any:
        made = HubGroup(77, bundles, "PACK", "")
        self.machine.scheduler.groups[made.id] = made
        return _Handle(77)

    def task(self, **options: Any) -> Any:
        return self.planner.task_plan(TaskOptions(**options))

    def actor(self, meta: ActorMeta = META, **options: Any) -> Any:
        return self.planner.actor_plan(ActorOptions(**options), meta)


class _Handle:
    """As much of a PlacementGroup as a plan looks at."""

    def __init__(self, id: int) -> None:
        self._ref = SimpleNamespace(_id=id)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_plan_is_made_once_per_options_object(bench: Bench) -> None:
    options, call = TaskOptions(), CallOptions()
    assert bench.planner.task_plan(options) is bench.planner.task_plan(options)
    assert bench.planner.call_plan(1, call) is bench.planner.call_plan(1, call)
    assert bench.planner.call_plan(1, call) is not bench.planner.call_plan(2, call)


def test_many_options_do_not_pile_up(bench: Bench) -> None:
    for number in range(10_000):
        plan = bench.planner.task_plan(TaskOptions(max_retries=number))
        assert plan.retries == number  # never that of options which are gone
    assert len(bench.planner._plans) <= 4096


def test_the_plain_task(bench: Bench) -> None:
    plan = bench.task()
    assert plan.shape.demand == to_units({"CPU": 1})
    assert plan.shape.environment == ()
    assert (plan.num_returns, plan.retries, plan.settings, plan.max_calls) == (1, 3, None, None)
    assert plan.simple


def test_tasks_that_want_the_same_share_a_shape(bench: Bench) -> None:
    assert bench.task(name="a").shape is bench.task(max_retries=0).shape
    assert bench.task(num_cpus=2).shape is not bench.task().shape


@pytest.mark.parametrize(
    ("num_returns", "count", "streaming", "simple"),
    [
        (1, 1, False, True),
        (3, 3, False, False),
        (0, 0, False, False),
        ("dynamic", 1, False, True),
        ("streaming", 1, True, False),
    ],
)
def test_numbers_of_values(
    bench: Bench, num_returns: Any, count: int, streaming: bool, simple: bool
) -> None:
    for plan in (
        bench.task(num_returns=num_returns),
        bench.planner.call_plan(1, CallOptions(num_returns=num_returns)),
    ):
        assert (plan.num_returns, plan.streaming, plan.simple) == (count, streaming, simple)
        assert bool(plan.settings and plan.settings.get("dynamic")) == (num_returns == "dynamic")


def test_demands(bench: Bench) -> None:
    plan = bench.task(num_cpus=0.5, num_gpus=1, memory=100, resources={"x": 2})
    wanted = {"CPU": 0.5, "GPU": 1.0, "memory": 100.0, "x": 2.0}
    assert plan.settings["resources"] == wanted
    assert plan.shape.demand == to_units(wanted)
    assert plan.shape.problem is not None  # there is no "x" here
    assert bench.task(num_cpus=0).shape.demand == {}


def test_workers_with_gpus_are_for_one_call_unless_told(bench: Bench) -> None:
    assert bench.task(num_gpus=1).max_calls == 1
    assert bench.task(num_gpus=1, max_calls=0).max_calls == 0


def test_allowed_exceptions_travel_packed(bench: Bench) -> None:
    def allowed(plan: Any) -> Any:
        return serialization.loads(plan.settings["retry_exceptions"])

    assert allowed(bench.task(retry_exceptions=True)) == (Exception,)
    assert allowed(bench.task(retry_exceptions=(ValueError,))) == (ValueError,)
    assert bench.task(retry_exceptions=False).settings is None
    call = CallOptions(retry_exceptions=(KeyError,))
    assert allowed(bench.planner.call_plan(1, call)) == (KeyError,)


def test_environments_of_session_and_task_are_merged() -> None:
    bench = Bench(env_vars={"A": "1", "B": "1"}, working_dir="/")
    environment = dict(bench.task(runtime_env={"env_vars": {"B": "2"}}).shape.environment)
    assert environment == {"env_vars": (("A", "1"), ("B", "2")), "working_dir": "/"}
    assert bench.task().shape is not bench.task(runtime_env={"env_vars": {"B": "2"}}).shape


def test_modules_are_found_by_the_directory_above(bench: Bench) -> None:
    import json

    plan = bench.task(runtime_env={"py_modules": [json, "some/module"]})
    (parents,) = dict(plan.shape.environment).values()
    assert parents == (
        os.path.dirname(os.path.dirname(json.__file__)),
        os.path.abspath("some"),
    )


def test_several_cpus_are_several_threads(bench: Bench) -> None:
    assert dict(bench.task(num_cpus=3).shape.environment) == {"threads": 3}
    assert bench.task(num_cpus=1.5).shape.environment == ()


def test_actors_have_a_worker_for_themselves_and_no_cpu_by_default(bench: Bench) -> None:
    plan = bench.actor(name="n")
    assert plan.shape.dedicated
    assert plan.shape.demand == {}
    assert plan.settings["namespace"] == "default"
    assert bench.actor(namespace="other").settings["namespace"] == "other"
    assert bench.actor(num_cpus=1).shape.demand == to_units({"CPU": 1})


def test_concurrency_of_actors() -> None:
    assert concurrency(ActorOptions(), is_async=False) == 1
    assert concurrency(ActorOptions(), is_async=True) == 1000
    assert concurrency(ActorOptions(max_concurrency=3), is_async=True) == 3


def test_calls_are_retried_as_they_say_or_as_their_actor_says(bench: Bench) -> None:
    bench.actors[1] = SimpleNamespace(options=ActorOptions(max_task_retries=4))
    assert bench.planner.call_plan(1, CallOptions()).retries == 4
    assert bench.planner.call_plan(1, CallOptions(max_task_retries=0)).retries == 0
    assert bench.planner.call_plan(99, CallOptions()).retries == 0


def test_groups_are_checked_when_the_plan_is_made(bench: Bench) -> None:
    group = bench.group({"CPU": 1}, {"CPU": 2})
    assert bench.task(placement_group=group, bundle_index=1).shape.bundle == 1
    with pytest.raises(ValueError, match=r"takes -1 to 1.*bundle index 2 is invalid"):
        bench.task(placement_group=group, bundle_index=2)
    with pytest.raises(ValueError, match="cannot fit into any bundles"):
        bench.task(placement_group=group, num_cpus=3)
    with pytest.raises(ValueError, match="cannot fit into any bundles"):
        bench.task(placement_group=group, bundle_index=0, num_cpus=2)
    with pytest.raises(ValueError, match="does not exist any more"):
        bench.task(placement_group=_Handle(5))


def test_whether_packages_are_here_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(pip=["pytest", "cloudpickle"])
    asked = Mock(wraps=importlib.metadata.version)
    monkeypatch.setattr(importlib.metadata, "version", asked)
    for number in range(5):
        bench.task(name=f"task {number}")
    assert [call.args for call in asked.call_args_list] == [("pytest",), ("cloudpickle",)]
    bench.task(runtime_env={"pip": ["pytest"]})
    assert asked.call_count == 3


def test_what_is_in_files_is_looked_at_each_time(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    bench = Bench(pip=[f"-r {file}"])
    file.write_text("pytest\n")
    assert "wants" not in dict(bench.task().shape.environment)
    file.write_text("pytest<1\n")
    assert dict(bench.task().shape.environment)["wants"].requirements.tool == "pip"
