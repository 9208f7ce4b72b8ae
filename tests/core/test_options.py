"""One table of options: what is accepted, what it becomes, and what the errors say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skate._core import options as option_table
from skate._core.options import ACTOR, CALL, TASK, check_options


def task(**given: Any) -> Any:
    return option_table.task_options(check_options(TASK, given), generator=False)


def actor(**given: Any) -> Any:
    return option_table.actor_options(check_options(ACTOR, given))


def call(**given: Any) -> Any:
    return option_table.call_options(check_options(CALL, given), generator=False)


def test_defaults() -> None:
    assert task() == option_table.TaskOptions()
    assert actor() == option_table.ActorOptions()
    assert call() == option_table.CallOptions()


def test_none_means_the_default() -> None:
    everything = dict.fromkeys(option_table.OPTIONS)
    del everything["placement_group"]  # there it is no group, although there is one around it
    del everything["enable_task_events"]  # as in Ray, it is one or the other
    for kind, make in ((TASK, task), (ACTOR, actor), (CALL, call)):
        given = {name: None for name in everything if kind in option_table.OPTIONS[name].kinds}
        assert make(**given) == make()


@pytest.mark.parametrize("make", [task, actor, call])
@pytest.mark.parametrize("wrong", [None, 1, "yes"])
def test_whether_it_is_listed_is_one_or_the_other(make: Any, wrong: object) -> None:
    assert make(enable_task_events=False).listed is False
    with pytest.raises(TypeError, match="enable_task_events takes True or False"):
        make(enable_task_events=wrong)


def test_values_arrive() -> None:
    options = task(
        num_returns=2,
        num_cpus=0.5,
        num_gpus=1,
        memory=1e9,
        resources={"TPU": 2},
        max_retries=-1,
        retry_exceptions=[ValueError],
        max_calls=4,
        name="n",
    )
    assert (options.num_returns, options.num_cpus, options.num_gpus) == (2, 0.5, 1.0)
    assert (options.memory, options.resources) == (10**9, {"TPU": 2.0})
    assert (options.max_retries, options.retry_exceptions) == (-1, (ValueError,))
    assert (options.max_calls, options.name) == (4, "n")


def test_spellings_of_all_eras() -> None:
    assert task(num_return_vals=3).num_returns == 3
    assert actor(max_reconstructions=2).max_restarts == 2
    assert actor(lifetime="detached").detached
    assert not actor(lifetime="non_detached").detached
    assert actor(concurrency_groups=[{"name": "io", "max_concurrency": 2}]) == actor(
        concurrency_groups={"io": 2}
    )
    assert task(accelerator_type="A100").resources == {"accelerator_type:A100": 0.001}
    assert task(_generator_backpressure_num_objects=-1).backpressure is None
    assert task(max_calls=0).max_calls is None


def test_two_spellings_of_one_option_are_refused() -> None:
    with pytest.raises(ValueError, match="num_return_vals"):
        task(num_returns=1, num_return_vals=2)


def test_generators_stream_by_default() -> None:
    assert option_table.task_options({}, generator=True).num_returns == "streaming"
    assert option_table.call_options({}, generator=True).num_returns == "streaming"
    given = check_options(TASK, {"num_returns": 3})
    assert option_table.task_options(given, generator=True).num_returns == 3


@pytest.mark.parametrize("num_returns", ["streaming", "dynamic"])
def test_streaming_needs_a_generator(num_returns: str) -> None:
    with pytest.raises(ValueError, match="yield"):
        task(num_returns=num_returns)


def test_placement_in_a_strategy_or_beside_it() -> None:
    group = SimpleNamespace(_ref="ref")
    strategy = SimpleNamespace(
        placement_group=group,
        placement_group_bundle_index=1,
        placement_group_capture_child_tasks=True,
    )
    options = task(scheduling_strategy=strategy)
    assert (options.placement_group, options.bundle_index) == (group, 1)
    assert options.capture_child_tasks
    assert actor(placement_group=group, placement_group_bundle_index=2).bundle_index == 2
    assert task(placement_group="default").placement_group is None
    with pytest.raises(ValueError, match="once"):
        task(scheduling_strategy=strategy, placement_group=group)


@pytest.mark.parametrize(
    "strategy", ["DEFAULT", "SPREAD", SimpleNamespace(node_id="ab", soft=True)]
)
def test_strategies_are_for_engines_with_several_machines(strategy: Any) -> None:
    assert task(scheduling_strategy=None) == task()
    outside = task()._replace(strategy=strategy, placement_group=False)
    assert task(scheduling_strategy=strategy) == outside


@pytest.mark.parametrize(
    ("make", "given", "error"),
    [
        (task, {"num_cpus": -1}, ValueError),
        (task, {"num_cpus": "2"}, TypeError),
        (task, {"num_cpus": True}, TypeError),
        (task, {"num_cpus": float("nan")}, ValueError),
        (task, {"num_cpus": 0.00001}, ValueError),
        (task, {"num_gpus": 1.5}, ValueError),
        (task, {"num_returns": -1}, ValueError),
        (task, {"num_returns": "many"}, ValueError),
        (task, {"num_returns": 1.5}, TypeError),
        (task, {"max_retries": -2}, ValueError),
        (task, {"resources": {"CPU": 1}}, ValueError),
        (task, {"resources": ["TPU"]}, TypeError),
        (task, {"retry_exceptions": ValueError}, TypeError),
        (task, {"retry_exceptions": [int]}, ValueError),
        (task, {"runtime_env": "env"}, TypeError),
        (task, {"scheduling_strategy": "RANDOM"}, ValueError),
        (task, {"placement_group": 3}, TypeError),
        (task, {"label_selector": ["zone"]}, TypeError),
        (task, {"label_selector": {"zone": 1}}, TypeError),
        (task, {"label_selector": {"-zone": "a"}}, ValueError),
        (task, {"label_selector": {"zone": "in()"}}, ValueError),
        (task, {"label_selector": {"zone": "a b"}}, ValueError),
        (task, {"fallback_strategy": {"label_selector": {}}}, TypeError),
        (actor, {"fallback_strategy": [{"labels": {}}]}, ValueError),
        (actor, {"fallback_strategy": [{"label_selector": {"zone": "a!"}}]}, ValueError),
        (task, {"_generator_backpressure_num_objects": 0}, ValueError),
        (task, {"name": 3}, TypeError),
        (actor, {"lifetime": "eternal"}, ValueError),
        (actor, {"max_concurrency": 0}, ValueError),
        (actor, {"concurrency_groups": {"io": 0}}, ValueError),
        (actor, {"get_if_exists": True}, ValueError),
        (actor, {"name": ""}, ValueError),
        (call, {"tensor_transport": "pigeon"}, ValueError),
    ],
)
def test_a_bad_value_is_refused_by_name(make: Any, given: dict[str, Any], error: type) -> None:
    with pytest.raises(error, match=next(iter(given)).split("[")[0]):
        make(**given)


def test_a_bad_value_is_shown() -> None:
    with pytest.raises(ValueError, match="got -7"):
        task(max_retries=-7)


@pytest.mark.parametrize(
    ("make", "name", "hint"),
    [
        (task, "num_cpu", "num_cpus"),
        (task, "max_retry", "max_retries"),
        (actor, "max_restart", "max_restarts"),
        (actor, "num_returns", "actor methods"),
        (call, "num_cpus", "remote functions"),
    ],
)
def test_an_unknown_option_names_the_nearest(make: Any, name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'.*{hint}"):
        make(**{name: 1})


def test_options_of_a_call_can_be_changed_one_by_one() -> None:
    first = call(num_returns=2, concurrency_group="io", retry_exceptions=True)
    assert option_table.call_options(option_table.given_from(first), generator=False) == first


def test_the_number_of_a_bundle_needs_its_group() -> None:
    with pytest.raises(ValueError, match="bundle index must be -1"):
        task(placement_group_bundle_index=0)
    assert task(placement_group_bundle_index=-1).bundle_index == -1


def test_several_accelerators_are_given_as_a_whole() -> None:
    assert task(resources={"TPU": 0.5, "other": 2.5}).resources == {"TPU": 0.5, "other": 2.5}
    with pytest.raises(ValueError, match="whole number"):
        task(resources={"TPU": 2.5})
