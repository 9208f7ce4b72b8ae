"""Actors that the replicas of a deployment share."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import skate
from skate import serve
from skate.exceptions import ActorError
from skate.serve import _client
from skate.serve._identity import NAMESPACE, DeploymentID
from skate.serve._replica.deployment_actors import ActorKey, SharedActors, find_all
from skate.serve.config import DeploymentActorConfig
from skate.serve.exceptions import SkateServeError
from tests.support import Flag, eventually


@skate.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.count = start

    def next(self) -> int:
        self.count += 1
        return self.count

    def context(self) -> Any:
        return serve.get_deployment_actor_context()

    def die(self) -> None:
        os._exit(1)


@skate.remote
class Fails:
    def __init__(self) -> None:
        raise RuntimeError("it cannot start")


class Shares:
    async def __call__(self) -> int:
        number: int = await serve.get_deployment_actor("counter").next.remote()
        return number

    async def context(self) -> Any:
        return await serve.get_deployment_actor("counter").context.remote()

    async def unknown(self) -> Any:
        return serve.get_deployment_actor("other")

    async def die(self) -> None:
        await serve.get_deployment_actor("counter").die.remote()


def app(start: int = 10, **options: Any) -> Any:
    actor = DeploymentActorConfig("counter", Counter, init_kwargs={"start": start})
    return serve.deployment(Shares).options(deployment_actors=[actor], **options).bind()


@pytest.mark.parametrize("name", ["shop", "shop::eu", "a:", ":a", "shop#1", "100%3A", ""])
def test_an_actor_is_known_by_its_name(name: str) -> None:
    for key in (
        ActorKey(DeploymentID("Model", name), "v1", "cache"),
        ActorKey(DeploymentID("Model", "app"), "v1", name),
    ):
        assert ActorKey.of(str(key)) == key
    assert ActorKey.of("SERVE_REPLICA::x") is None


def test_names_of_actors_are_those_of_ray() -> None:
    key = ActorKey(DeploymentID("Model", "shop"), "v1", "cache")
    assert str(key) == "SERVE_DEPLOYMENT_ACTOR::shop::Model::v1::cache"


def test_all_replicas_have_the_same_until_they_end(run: Callable[..., Any]) -> None:
    handle = run(app(num_replicas=2), name="app", route_prefix=None)
    assert [handle.remote().result() for _ in range(6)] == list(range(11, 17))
    found = handle.context.remote().result()
    assert (found.app_name, found.deployment, found.actor_name) == ("app", "Shares", "counter")
    with pytest.raises(ValueError, match="no actor 'other' in its deployment_actors; it has cou"):
        handle.unknown.remote().result()
    serve.delete("app")
    assert not [*find_all()]


def test_another_version_has_its_own(run: Callable[..., Any]) -> None:
    handle = run(app(), route_prefix=None)
    assert handle.remote().result() == 11
    (before,) = find_all()
    handle = run(app(start=20), route_prefix=None)
    assert handle.remote().result() == 21

    def is_alone() -> bool:
        keys = [*find_all()]
        return len(keys) == 1 and keys[0] != before

    eventually(is_alone)


def test_one_that_dies_is_started_anew(run_locally: Callable[..., Any]) -> None:
    handle = run_locally(app(), route_prefix=None)
    assert handle.remote().result() == 11
    with pytest.raises(ActorError):
        handle.die.remote().result()
    assert handle.remote().result() == 11


def test_one_that_was_killed_is_there_again_soon(run_locally: Callable[..., Any]) -> None:
    handle = run_locally(app(health_check_period_s=0.05), route_prefix=None)
    assert handle.remote().result() == 11
    (key,) = find_all()

    def actor() -> Any:
        with suppress(ValueError):  # it is not there now
            return skate.get_actor(str(key), namespace=NAMESPACE)
        return None

    killed = actor()
    skate.kill(killed)
    eventually(lambda: actor() not in (None, killed))
    assert handle.remote().result() == 11


def test_they_outlive_the_controller_and_end_all_the_same(run_locally: Callable[..., Any]) -> None:
    handle = run_locally(app(), route_prefix=None)
    assert handle.remote().result() == 11
    skate.kill(_client.connect().controller, no_restart=False)
    serve.status()
    assert handle.remote().result() == 12
    serve.delete("default")
    assert not [*find_all()]


def test_one_that_cannot_start_is_why_the_application_does_not(
    run_locally: Callable[..., Any],
) -> None:
    actors = [{"name": "broken", "actor_class": Fails}]
    deployment = serve.deployment(Shares).options(
        deployment_actors=actors, max_constructor_retry_count=1
    )
    with pytest.raises(RuntimeError, match="it cannot start"):
        run_locally(deployment.bind(), route_prefix=None)


@skate.remote
class Fragile:
    def __init__(self, is_broken: Flag) -> None:
        if is_broken.is_set():
            raise RuntimeError("it cannot start")


def test_one_that_cannot_start_again_is_seen_by_health_checks(
    run_locally: Callable[..., Any], flag: Callable[[str], Flag]
) -> None:
    is_broken = flag("broken")
    actors = [DeploymentActorConfig("fragile", Fragile, init_args=(is_broken,))]
    deployment = serve.deployment(Shares).options(
        deployment_actors=actors, health_check_period_s=0.05
    )
    run_locally(deployment.bind(), route_prefix=None)
    (key,) = find_all()
    is_broken.set()
    skate.kill(skate.get_actor(str(key), namespace=NAMESPACE))

    def told() -> str:
        return serve.status().applications["default"].deployments["Shares"].message

    eventually(lambda: "it cannot start" in told())
    os.unlink(is_broken.path)
    eventually(lambda: serve.status().applications["default"].status == "RUNNING")


def test_those_that_are_there_are_not_started_again(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(app(), route_prefix=None)
    (key,) = find_all()
    config = DeploymentActorConfig("counter", Counter)
    monkeypatch.setattr(config, "get_actor_class", lambda: pytest.fail("it is started again"))
    SharedActors(key.deployment_id, key.version, [config]).look_after()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("counter", "a list of DeploymentActorConfig"),
        ([{"name": "counter"}], "actor_class"),
        ([{"name": "counter", "actor_class": 3}], "a class made remote"),
        ([{"name": 3, "actor_class": Counter}], "a string"),
        ([{"name": "one", "actor_class": Counter}] * 2, "different names"),
        (
            [{"name": "one", "actor_class": Counter, "actor_options": {"lifetime": "detached"}}],
            "no name, namespace, lifetime",
        ),
    ],
)
def test_what_is_no_actor_is_refused(given: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        serve.deployment(deployment_actors=given)(Shares)


def test_outside_of_replicas_and_actors_there_is_none(local_serving: str) -> None:
    with pytest.raises(SkateServeError, match="from within a replica"):
        serve.get_deployment_actor("counter")
    with pytest.raises(SkateServeError, match="inside an actor of `deployment_actors`"):
        serve.get_deployment_actor_context()
