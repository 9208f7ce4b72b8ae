"""Decisions about replicas, without any: targets and events in, actions out."""

from __future__ import annotations

import time
from typing import Any

import pytest

from skate.serve._application import options
from skate.serve._application.specs import DeploymentSpec
from skate.serve._controller.applications import Applications
from skate.serve._controller.deployment_state import DeploymentState
from skate.serve._controller.replicas import Action, ReconfigureReplica, StartReplica, StopReplica
from skate.serve._identity import DeploymentID
from skate.serve._replica.replica_info import ReplicaInfo


def spec(version: str = "1", **given: Any) -> DeploymentSpec:
    resolved = options.resolve(options.check(given))
    return DeploymentSpec(DeploymentID("model"), b"", version, resolved)


class World:
    """Performs actions at once, as replicas that always work would, unless told otherwise."""

    def __init__(self, **options: Any) -> None:
        self.state = DeploymentState(spec(**options))
        self.now = 0.0
        self.breaks = ""  # why new replicas fail

    def step(self) -> list[Action]:
        return self.state.reconcile(self.now)

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            tag = action.id.unique_id
            if isinstance(action, StartReplica) and self.breaks:
                self.state.failed_to_start(tag, self.breaks, self.now)
            elif isinstance(action, StartReplica):
                info = ReplicaInfo(action.spec.version, action.spec.options, False, True, (), None)
                self.state.started(tag, info, self.now)
            elif isinstance(action, ReconfigureReplica):
                self.state.reconfigured(tag)
            else:
                self.state.stopped(tag)

    def settle(self) -> list[Action]:
        """Everything that is done until there is nothing more to do."""
        done: list[Action] = []
        while actions := self.step():
            done += actions
            self.perform(actions)
            self.now += 10
        return done

    def versions(self) -> list[str]:
        return sorted(record.version for record in self.state.replicas.values())


def kinds(actions: list[Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


def test_replicas_are_started_and_then_nothing_more() -> None:
    world = World(num_replicas=3)
    started = world.step()
    assert kinds(started) == ["StartReplica"] * 3
    assert [action.rank for action in started if isinstance(action, StartReplica)] == [0, 1, 2]
    assert world.state.status == "UPDATING"
    world.perform(started)
    assert world.step() == []
    assert world.state.status == "HEALTHY"
    assert world.state.next_time is None


def test_new_code_starts_before_the_old_stops() -> None:
    world = World(num_replicas=2)
    world.settle()
    world.state.set_target(spec("2", num_replicas=2))
    serving = []
    while actions := world.step():
        world.perform(actions)
        serving.append(sum(record.serves for record in world.state.replicas.values()))
    assert min(serving) == 2
    assert world.versions() == ["2", "2"]


def test_an_update_is_done_when_the_old_replicas_have_ended() -> None:
    world = World(num_replicas=1)
    world.settle()
    world.state.set_target(spec("2", num_replicas=1))
    world.perform(world.step())
    (stop,) = world.step()  # the new one serves
    assert kinds([stop]) == ["StopReplica"]
    world.step()
    assert world.state.status == "UPDATING"
    assert world.state.message == "1 replicas that are not needed any more finish what they have."
    world.perform([stop])
    world.step()
    assert (world.state.status, world.state.message) == ("HEALTHY", "")


def test_what_reserves_resources_is_stopped_first() -> None:
    world = World(num_replicas=2, ray_actor_options={"num_cpus": 1})
    world.settle()
    world.state.set_target(spec("2", num_replicas=2, ray_actor_options={"num_cpus": 1}))
    assert kinds(world.step()) == ["StopReplica"]
    assert world.step() == []  # the one that stops still holds what it took
    stopping = next(r for r in world.state.replicas.values() if not r.serves)
    world.state.stopped(stopping.id.unique_id)
    assert kinds(world.step()) == ["StartReplica"]
    world.now += 1
    most = 0
    for record in list(world.state.replicas.values()):
        if record.state == "STARTING":
            info = ReplicaInfo("2", world.state.spec.options, False, True, (), None)
            world.state.started(record.id.unique_id, info, world.now)
    while actions := world.step():
        most = max(most, len(world.state.replicas))
        world.perform(actions)
    assert most == 2
    assert world.versions() == ["2", "2"]


def test_a_batch_is_replaced_at_a_time() -> None:
    world = World(num_replicas=10)
    world.settle()
    world.state.set_target(spec("2", num_replicas=10, rolling_update_percentage=0.3))
    actions = world.step()
    assert kinds(actions) == ["StartReplica"] * 3
    world.perform(actions)
    world.settle()
    assert world.versions() == ["2"] * 10


def test_options_change_in_place() -> None:
    world = World(num_replicas=2)
    world.settle()
    world.state.set_target(spec(num_replicas=2, user_config={"a": 1}))
    assert world.state.status == "UPDATING"
    assert kinds(world.settle()) == ["ReconfigureReplica"] * 2
    assert world.state.status == "HEALTHY"


def test_the_same_target_changes_nothing() -> None:
    world = World()
    world.settle()
    world.state.set_target(spec())
    assert world.state.status == "HEALTHY"
    assert world.step() == []


@pytest.mark.parametrize(("replicas", "tries"), [(1, 3), (2, 6), (10, 20)])
def test_code_that_never_starts_is_given_up(replicas: int, tries: int) -> None:
    world = World(num_replicas=replicas)
    world.breaks = "no good"
    starts = [action for action in world.settle() if isinstance(action, StartReplica)]
    assert tries <= len(starts) < tries + replicas
    assert world.state.status == "DEPLOY_FAILED"
    assert "no good" in world.state.message


def test_failures_are_followed_by_pauses() -> None:
    world = World()
    world.breaks = "no good"
    world.perform(world.step())
    assert kinds(world.step()) == ["StartReplica"]  # once may be bad luck
    world.perform(
        [StartReplica(r.id, world.state.spec, 0, 1) for r in world.state.replicas.values()]
    )
    assert world.step() == []
    assert world.state.next_time is not None
    world.now = world.state.next_time
    assert kinds(world.step()) == ["StartReplica"]


def test_what_ran_before_is_tried_for_ever() -> None:
    world = World()
    world.settle()
    (tag,) = world.state.replicas
    world.state.died(tag, "killed", world.now)
    assert world.state.status == "UNHEALTHY"
    world.breaks = "not now"
    for _ in range(50):
        world.perform(world.step())
        world.now += 10
    assert world.state.status == "UNHEALTHY"
    world.breaks = ""
    world.settle()
    assert world.state.status == "HEALTHY"


def test_code_that_fails_leaves_the_former_in_place() -> None:
    world = World(num_replicas=2)
    world.settle()
    world.breaks = "no good"
    world.state.set_target(spec("2", num_replicas=2))
    assert "StopReplica" not in kinds(world.settle())
    assert world.state.status == "DEPLOY_FAILED"
    assert world.versions() == ["1", "1"]
    world.breaks = ""
    world.state.set_target(spec("3", num_replicas=2))
    world.settle()
    assert world.versions() == ["3", "3"]


def test_a_replica_is_replaced_after_three_bad_health_checks_in_a_row() -> None:
    world = World()
    world.settle()
    (tag,) = world.state.replicas
    for error in ("ill", "ill", None, "ill", "ill"):
        world.state.checked(tag, error)
        assert world.step() == []
    world.state.checked(tag, "ill")
    actions = world.step()
    assert kinds(actions) == ["StopReplica", "StartReplica"]
    assert isinstance(actions[0], StopReplica)
    assert actions[0].grace_seconds == 0


def test_a_changed_deployment_begins_with_its_initial_replicas() -> None:
    world = World(autoscaling_config={"min_replicas": 1, "max_replicas": 9})
    world.state.scale_to(4)
    world.state.set_target(spec("2", autoscaling_config={"min_replicas": 1, "max_replicas": 8}))
    assert world.state.wanted == 4  # what the load asked for
    for version, initial, expected in [("2", 2, 4), ("2", 6, 6), ("3", 2, 2)]:
        scaling = {"min_replicas": 1, "initial_replicas": initial, "max_replicas": 8}
        world.state.set_target(spec(version, autoscaling_config=scaling))
        assert world.state.wanted == expected
        world.state.set_target(spec(version, autoscaling_config=scaling))
        assert world.state.wanted == expected  # nothing has changed


def test_scaling_down_stops_the_youngest() -> None:
    world = World(num_replicas=1, autoscaling_config=None)
    world.settle()
    (eldest,) = world.state.replicas
    world.state.scale_to(3)
    assert world.state.status == "UPSCALING"
    world.settle()
    world.state.scale_to(1)
    assert world.state.status == "DOWNSCALING"
    actions = world.settle()
    assert kinds(actions) == ["StopReplica", "StopReplica"]
    assert list(world.state.replicas) == [eldest]
    assert world.state.status == "HEALTHY"


def test_everything_stops_when_it_is_deleted() -> None:
    world = World(num_replicas=2)
    world.perform(world.step()[:1])
    world.state.delete()
    stops = [action for action in world.step() if isinstance(action, StopReplica)]
    assert sorted(stop.grace_seconds for stop in stops) == [0.5, 20.0]
    assert not any(stop.refuses_late_requests for stop in stops)
    world.perform(list(stops))
    assert world.step() == []
    assert not world.state.replicas


def test_replicas_of_a_former_controller_count() -> None:
    world = World(num_replicas=2)
    for action in world.step():
        world.state.stopped(action.id.unique_id)
        world.state.recovered(action.id, 0, world.now)
    assert world.step() == []
    first, second = world.state.replicas
    info = ReplicaInfo("1", world.state.spec.options, False, True, ("a",), None)
    world.state.started(first, info, world.now)
    world.state.died(second, "gone", world.now)
    assert kinds(world.step()) == ["StartReplica"]


def test_an_application_that_cannot_be_made_has_failed_until_one_can() -> None:
    apps = Applications()
    apps.fail("shop", "ImportError: no shop", time.time())
    overview = apps.overview()["shop"]
    assert (overview.status, overview.message) == ("DEPLOY_FAILED", "ImportError: no shop")
    apps.delete(["shop"])
    assert not apps.overview()
