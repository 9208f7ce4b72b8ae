"""Gangs: replicas that reserve what they need together, start together and end together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve._controller.replicas import StartReplica
from skate.serve.config import GangRuntimeFailurePolicy, GangSchedulingConfig
from skate.serve.gang import GangContext
from skate.util.placement_group import get_current_placement_group, placement_group_table
from tests.serve.test_deployment_state import World, kinds, spec
from tests.support import PATIENCE, eventually

PAIRS = {"gang_scheduling_config": {"gang_size": 2}}
ONE_CPU = {"ray_actor_options": {"num_cpus": 1}}


def gangs_of(world: World) -> Counter[str]:
    records = world.state.replicas.values()
    return Counter(record.gang.gang_id for record in records if record.gang is not None)


def tags_of(world: World) -> list[str]:
    return list(world.state.replicas)


# -- decisions ----------------------------------------------------------------------------------


def test_a_gang_starts_as_one_and_its_replicas_know_each_other() -> None:
    world = World(num_replicas=4, **PAIRS)
    started = world.step()
    gangs = [action.gang for action in started if isinstance(action, StartReplica)]
    assert [gang.rank for gang in gangs if gang] == [0, 1, 0, 1]
    first, second, third, _ = [gang for gang in gangs if gang]
    assert first.gang_id == second.gang_id != third.gang_id
    assert first.member_replica_ids == [action.id.unique_id for action in started[:2]]
    assert (first.world_size, first.pg_name) == (2, "")  # nothing is reserved


@pytest.mark.parametrize("event", ["died", "unhealthy", "failed_to_start"])
def test_when_one_of_a_gang_fails_the_others_are_replaced_with_it(event: str) -> None:
    world = World(num_replicas=4, **PAIRS)
    started = world.step()
    world.perform(started[1:] if event == "failed_to_start" else started)
    world.now += 10
    lost, sibling, *kept = tags_of(world)
    if event == "died":
        world.state.died(lost, "killed", world.now)
    elif event == "unhealthy":
        for _ in range(3):
            world.state.checked(lost, "ill")
    else:
        world.state.failed_to_start(lost, "no", world.now)
    world.settle()
    assert set(gangs_of(world).values()) == {2}
    assert set(kept) < set(tags_of(world))
    assert not {lost, sibling} & set(tags_of(world))
    assert len(tags_of(world)) == 4


def test_fewer_replicas_are_fewer_whole_gangs() -> None:
    world = World(
        autoscaling_config={"min_replicas": 2, "max_replicas": 6, "initial_replicas": 6}, **PAIRS
    )
    world.settle()
    world.state.scale_to(4)
    assert kinds(world.step()) == ["StopReplica"] * 2
    assert sorted(gangs_of(world).values()) == [2, 2, 2]
    world.settle()
    for tag in [tag for tag, record in world.state.replicas.items() if not record.serves]:
        world.state.stopped(tag)
    assert sorted(gangs_of(world).values()) == [2, 2]


def test_new_code_replaces_gang_after_gang() -> None:
    options = {"num_replicas": 4, "ray_actor_options": {"num_cpus": 1}, **PAIRS}
    world = World(**options)
    world.settle()
    world.state.set_target(spec("2", **options))
    stopped = world.step()
    assert kinds(stopped) == ["StopReplica"] * 2
    ending = [world.state.replicas[action.id.unique_id].gang for action in stopped]
    assert len({gang.gang_id for gang in ending if gang}) == 1
    world.perform(stopped[:1])
    assert world.step() == []  # one alone does not start
    world.perform(stopped[1:])
    assert kinds(world.step()) == ["StartReplica"] * 2


@pytest.mark.parametrize("new", [2, 3])
@pytest.mark.parametrize("rolling", [{}, {"max_surge_percent": 10}, ONE_CPU])
def test_smaller_gangs_replace_larger_ones(new: int, rolling: dict[str, Any]) -> None:
    world = World(num_replicas=12, gang_scheduling_config={"gang_size": 4}, **rolling)
    world.settle()
    smaller = {"gang_size": new}
    world.state.set_target(spec("2", num_replicas=12, gang_scheduling_config=smaller, **rolling))
    world.settle()
    assert set(gangs_of(world).values()) == {new}


@pytest.mark.parametrize(("asked", "given"), [(0, 0), (1, 2), (2, 2), (3, 4), (5, 4)])
def test_the_load_is_answered_by_whole_gangs_within_the_limits(asked: int, given: int) -> None:
    limits = {"min_replicas": 0, "max_replicas": 4}
    assert World(autoscaling_config=limits, **PAIRS).state.whole(asked) == given


def test_limits_that_are_defaults_need_not_be_whole_gangs() -> None:
    trios = World(num_replicas="auto", gang_scheduling_config={"gang_size": 3}).state
    assert (trios.wanted, trios.whole(100)) == (3, 99)


def test_one_replica_alone_is_not_started_anew() -> None:
    text = "a gang is started anew as a whole"
    with pytest.raises(NotImplementedError, match=text):
        GangSchedulingConfig(
            gang_size=2, runtime_failure_policy=GangRuntimeFailurePolicy.RESTART_REPLICA
        )


def test_a_gang_needs_its_number_of_replicas() -> None:
    with pytest.raises(ValueError, match="num_replicas=1 must be a multiple of gang_size"):
        serve.deployment(**PAIRS)(Member)


# -- for real -----------------------------------------------------------------------------------


class Member:
    def who(self) -> tuple[str, GangContext | None]:
        context = serve.get_replica_context()
        return context.replica_tag, context.gang_context

    def reserved(self) -> tuple[list[dict[str, float]], str]:
        group = get_current_placement_group()
        assert group is not None
        return group.bundle_specs, placement_group_table(group)["strategy"]

    def end(self, tag: str) -> None:
        if serve.get_replica_context().replica_tag == tag:
            skate.kill(skate.get_runtime_context().current_actor)


def gang(**options: Any) -> Any:
    return serve.deployment(**options)(Member).bind()


def reserved_groups() -> list[str]:
    rows = placement_group_table().values()
    return [row["name"] for row in rows if row["state"] != "REMOVED"]


def members(handle: Any) -> dict[str, GangContext]:
    return dict(handle.broadcast("who").results(timeout_s=PATIENCE))


def test_a_gang_that_finds_no_room_starts_none_of_its_replicas(
    run_locally: Callable[..., Any],
) -> None:
    options = {"num_replicas": 6, "ray_actor_options": {"num_cpus": 0.4}}
    serve._run(gang(**options, **PAIRS), _blocking=False)  # 2 CPUs: for two gangs and a half

    def states() -> Any:
        return dict(serve.status().applications["default"].deployments["Member"].replica_states)

    eventually(lambda: states() == {"RUNNING": 4, "STARTING": 2})
    assert serve.status().applications["default"].status == "DEPLOYING"
    assert len(reserved_groups()) == 3
    serve.delete("default")
    assert reserved_groups() == []


@pytest.mark.parametrize(
    ("options", "bundles"),
    [
        ({"ray_actor_options": {"num_cpus": 0.25}}, [{"CPU": 0.25}] * 2),
        (
            {"placement_group_bundles": [{"CPU": 0.25}, {"CPU": 0.5}]},
            [{"CPU": 0.25}, {"CPU": 0.5}] * 2,
        ),
    ],
)
def test_a_gang_reserves_as_one(
    run_locally: Callable[..., Any], options: dict[str, Any], bundles: list[dict[str, float]]
) -> None:
    config = {"gang_size": 2, "gang_placement_strategy": "SPREAD"}
    handle = run_locally(gang(num_replicas=2, gang_scheduling_config=config, **options))
    told: list[Any] = []

    def both_told() -> bool:  # a handle hears of one replica after the other
        told[:] = handle.broadcast("reserved").results(timeout_s=PATIENCE)
        return len(told) == 2

    eventually(both_told)
    assert told == [(bundles, "SPREAD")] * 2


def test_the_end_of_one_replica_is_that_of_its_gang_alone(
    run_locally: Callable[..., Any],
) -> None:
    options = {"num_replicas": 4, "ray_actor_options": {"num_cpus": 0.25}}
    handle = run_locally(gang(**options, **PAIRS))
    eventually(lambda: len(members(handle)) == 4)
    before = members(handle)
    lost, ended = next(iter(before.items()))
    handle.broadcast("end", lost).results(timeout_s=PATIENCE, return_exceptions=True)

    def replaced() -> bool:
        after = handle.broadcast("who").results(timeout_s=PATIENCE, return_exceptions=True)
        if any(isinstance(answer, Exception) for answer in after):
            return False
        names = {tag for tag, _ in after}
        kept = set(before) - set(ended.member_replica_ids)
        return len(names) == 4 and kept < names and not set(ended.member_replica_ids) & names

    eventually(replaced)
    eventually(lambda: len(reserved_groups()) == 2)
