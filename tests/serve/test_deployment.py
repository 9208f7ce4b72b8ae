"""Deployments as they are written: options, their errors, and spellings of former times."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from pydantic import ValidationError

import skate
from skate import serve
from skate.serve._application.specs import build
from skate.serve._start_options import (
    read_http_options,
    warn_of_others,
    with_older_http_options,
)
from skate.serve.config import (
    AutoscalingConfig,
    BackpressureConfig,
    HTTPOptions,
    RequestRouterConfig,
    gRPCOptions,
)
from skate.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RequestCancelledError,
    SkateServeError,
)
from skate.serve.handle import DeploymentHandle
from skate.serve.request_router import PowerOfTwoChoicesRequestRouter


@serve.deployment(num_replicas=2, user_config={"a": 1})
class Model:
    """A model."""

    def __init__(self, label: str = "") -> None:
        self.label = label


def test_what_was_given_can_be_read() -> None:
    assert Model.name == "Model"
    assert Model.num_replicas == 2
    assert Model.user_config == {"a": 1}
    assert Model.max_ongoing_requests == 5
    assert Model.max_queued_requests == -1
    assert Model.ray_actor_options == {}
    assert Model.__doc__ == "A model."
    assert Model.func_or_class("x").label == "x"


def test_options_make_a_changed_copy() -> None:
    changed = Model.options(name="Other", num_replicas=3, max_ongoing_requests=7)
    assert (changed.name, changed.num_replicas, changed.max_ongoing_requests) == ("Other", 3, 7)
    assert (Model.name, Model.num_replicas) == ("Model", 2)
    assert changed.user_config == {"a": 1}
    assert Model.options() == Model
    assert changed != Model


def test_either_a_number_or_the_load_decides() -> None:
    by_load = Model.options(autoscaling_config={"max_replicas": 4})
    assert by_load.num_replicas is None
    assert by_load.options(num_replicas=1).autoscaling_config is None
    auto = Model.options(num_replicas="auto")
    assert (auto.autoscaling_config.min_replicas, auto.autoscaling_config.max_replicas) == (1, 100)
    mixed = Model.options(num_replicas="auto", autoscaling_config={"upscale_delay_s": 1})
    assert (mixed.autoscaling_config.max_replicas, mixed.autoscaling_config.upscale_delay_s) == (
        100,
        1,
    )
    with pytest.raises(ValueError, match="num_replicas is not allowed beside"):
        serve.deployment(num_replicas=2, autoscaling_config={})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_replicas", 0),
        ("num_replicas", "many"),
        ("max_ongoing_requests", 0),
        ("max_ongoing_requests", None),
        ("max_queued_requests", -2),
        ("max_queued_requests", 0),
        ("graceful_shutdown_timeout_s", -1),
        ("health_check_period_s", 0),
        ("health_check_timeout_s", "soon"),
        ("rolling_update_percentage", 2),
        ("ray_actor_options", [1]),
        ("autoscaling_config", 3),
        ("ray_actor_options", {"num_cpus": -1}),
        ("ray_actor_options", {"name": "mine"}),
        ("ray_actor_options", {"max_concurrency": None}),
        ("placement_group_bundles", {"CPU": 1}),
        ("placement_group_bundles", []),
        ("placement_group_bundles", [{"CPU": 0}]),
        ("placement_group_bundles", [{"CPU": "1"}]),
        ("placement_group_strategy", "PACK"),
        ("max_replicas_per_node", 0),
        ("max_replicas_per_node", 101),
        ("placement_group_strategy", "TIGHT"),
        ("version", 1),
        ("gang_scheduling_config", {"gang_size": 0}),
        ("gang_scheduling_config", {"gang_size": 2, "gang_placement_strategy": "ANY"}),
    ],
)
def test_values_that_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"takes .*; got"):
        serve.deployment(**{name: value})(Model.func_or_class)


def test_types_that_are_refused() -> None:
    wrong: list[dict[str, Any]] = [{"num_cpus": "many"}, {"resources": []}, {"runtime_env": 3}]
    for options in wrong:
        with pytest.raises(TypeError, match="takes"):
            Model.options(ray_actor_options=options)
    with pytest.raises(TypeError, match="from 1 to 100"):
        Model.options(max_replicas_per_node="1")
    with pytest.raises(ValueError, match="placement_group_bundles is provided"):
        Model.options(max_replicas_per_node=2, placement_group_bundles=[{"CPU": 1}])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_replicas": 5}, "num_replicas=5 must be a multiple of gang_size"),
        (
            {"autoscaling_config": {"min_replicas": 4, "max_replicas": 9}},
            "autoscaling_config.max_replicas=9 must be a multiple",
        ),
        ({"max_replicas_per_node": 2}, "max_replicas_per_node is not allowed"),
    ],
)
def test_gangs_of_replicas_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Model.options(gang_scheduling_config={"gang_size": 4}, **options)


def test_what_is_given_last_decides_on_the_number_of_replicas() -> None:
    scaled = Model.options(autoscaling_config={"max_replicas": 3})
    assert scaled.options(num_replicas=2).num_replicas == 2
    assert scaled.options(num_replicas=2).autoscaling_config is None
    assert Model.options(num_replicas=2).options(autoscaling_config={}).num_replicas is None


def test_connections_stay_open_as_long_as_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert HTTPOptions().keep_alive_timeout_s == 90
    monkeypatch.setenv("RAY_SERVE_HTTP_KEEP_ALIVE_TIMEOUT_S", "333")
    assert HTTPOptions().keep_alive_timeout_s == 333


def test_settings_say_what_they_stand_for() -> None:
    class Router: ...

    assert RequestRouterConfig(request_router_class=Router).get_request_router_class() is Router
    by_path = RequestRouterConfig(request_router_class="pathlib:Path")
    assert by_path.get_request_router_class() is Path
    usual = RequestRouterConfig().get_request_router_class()
    assert usual is PowerOfTwoChoicesRequestRouter
    assert AutoscalingConfig().policy.is_default_policy_function()
    mine = AutoscalingConfig(policy={"policy_function": "os:getcwd"})  # type: ignore[arg-type]
    assert not mine.policy.is_default_policy_function()


def test_a_replica_must_fit_into_its_first_bundle() -> None:
    own = {"num_cpus": 2}
    with pytest.raises(ValueError, match="asks for 2 CPU"):
        Model.options(ray_actor_options=own, placement_group_bundles=[{"CPU": 1}, {"CPU": 4}])
    Model.options(ray_actor_options=own, placement_group_bundles=[{"CPU": 2}])


def test_names_that_are_refused() -> None:
    with pytest.raises(TypeError, match="did you mean 'num_replicas'"):
        serve.deployment(num_replica=2)
    with pytest.raises(ValueError, match="sees by itself what changed"):
        serve.deployment(prev_version="1")
    with pytest.raises(TypeError, match="class or a function"):
        serve.deployment()(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="function and has no constructor") as refused:
        serve.deployment(lambda: None, name="f").bind(1)
    assert isinstance(refused.value, ValueError)  # as on Ray


def test_spellings_of_former_times() -> None:
    older: dict[str, Any] = {"max_concurrent_queries": 3}
    assert serve.deployment(**older)(Model.func_or_class).max_ongoing_requests == 3
    assert Model.options(**older).max_ongoing_requests == 3
    assert (
        AutoscalingConfig(
            target_num_ongoing_requests_per_replica=3, max_replicas=2
        ).target_ongoing_requests
        == 3
    )
    with pytest.raises(AttributeError, match=r"deployment\.options"):
        _ = Model.set_logging_config
    with pytest.raises(AttributeError, match="get_deployment_handle"):
        _ = serve.get_handle
    with pytest.raises(AttributeError, match=r"@serve\.deployment"):
        _ = serve.create_backend
    with pytest.raises(RuntimeError, match="func_or_class"):
        Model("x")
    with pytest.raises(AttributeError, match="handles"):
        _ = Model.bind().predict


@pytest.mark.parametrize(
    "settings",
    [
        {"min_replicas": 3, "max_replicas": 2},
        {"min_replicas": 1, "max_replicas": 2, "initial_replicas": 3},
        {"max_replicas": 0},
        {"target_ongoing_requests": 0},
        {"upscale_delay_s": -1},
        {"aggregation_function": "median"},
    ],
)
def test_autoscaling_that_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"takes .*; got"):
        AutoscalingConfig(**settings)


def test_settings_of_the_server() -> None:
    with pytest.raises(ValueError, match=r"Both ssl_keyfile and ssl_certfile .* or neither"):
        HTTPOptions(ssl_keyfile="key")
    with pytest.raises(ValueError, match=r"one of Disabled, HeadOnly, EveryNode; got 'Nowhere'"):
        HTTPOptions(location="Nowhere")
    assert HTTPOptions(location="NoServer").location == "NoServer"
    with pytest.raises(TypeError, match="did you mean 'port'"):
        HTTPOptions.of("http_options", {"ports": 1})
    with pytest.raises(ModuleNotFoundError, match="a_module:b can't be imported!"):
        _ = gRPCOptions(grpc_servicer_functions=["a_module:b"]).grpc_servicer_func_callable
    for wrong in ({"port": -1}, {"request_timeout_s": -0.5}, {"port": "9000"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            gRPCOptions.of("grpc_options", wrong)
    assert HTTPOptions(port=1).copy(update={"host": "h"}).dict()["port"] == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"request_routing_stats_period_s": 0},
        {"request_routing_stats_timeout_s": -1},
        {"initial_backoff_s": 0},
        {"backoff_multiplier": "two"},
    ],
)
def test_routing_that_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"takes .*; got"):
        RequestRouterConfig(**settings)


def test_what_callers_cannot_be_told() -> None:
    pydantic = pytest.importorskip("pydantic")
    with pytest.raises(pydantic.ValidationError, match="429 or 503; got 418"):
        BackpressureConfig(status_code=418)


def test_what_is_no_router_is_refused_when_it_is_to_run() -> None:
    config = RequestRouterConfig(request_router_class="pathlib:Path")
    app = Model.options(request_router_config=config).bind("a")
    with pytest.raises(TypeError, match=r"derived from serve\.request_router\.RequestRouter"):
        serve.run(app)
    assert not skate.is_initialized()


def test_the_usual_router_takes_no_arguments() -> None:
    config = RequestRouterConfig(request_router_kwargs={"number": 1})
    app = Model.options(request_router_config=config).bind("a")
    with pytest.raises(ValueError, match="request_router_class of your own"):
        serve.run(app)
    assert not skate.is_initialized()


def test_the_version_follows_the_code() -> None:
    def version(app: Any) -> str:
        return build(app, "app", None, keep_unchanged=True).deployments[0].version

    assert version(Model.bind("a")) == version(Model.bind("a"))
    assert version(Model.bind("a")) != version(Model.bind("b"))
    assert version(Model.bind("a")) == version(Model.options(num_replicas=5).bind("a"))
    costly = Model.options(ray_actor_options={"num_cpus": 1})
    assert version(Model.bind("a")) != version(costly.bind("a"))


def test_each_run_is_a_version_of_its_own_unless_it_is_to_follow_another() -> None:
    def spec(keep: bool) -> Any:
        return build(Model.bind("a"), "app", None, keep_unchanged=keep).deployments[0]

    first, second, third = spec(False), spec(False), spec(True)
    assert len({each.version for each in (first, second, third)}) == 3
    assert second.following(first) == second
    assert third.following(second).version == second.version
    assert third.following(None) == third
    other = build(Model.bind("b"), "app", None, keep_unchanged=True).deployments[0]
    assert other.following(second) == other


def test_a_version_stands_for_the_code() -> None:
    def version(name: str, label: str) -> str:
        app = Model.options(version=name).bind(label)
        return build(app, "app", None).deployments[0].version

    assert Model.options(version="1").version == "1"
    assert version("1", "a") == version("1", "b")
    assert version("1", "a") != version("2", "a")


def test_what_cannot_be_sent_is_named() -> None:
    import threading

    with pytest.raises(TypeError, match=r"deployment Model.*pickle"):
        build(Model.bind(threading.Lock()), "app", None)


def test_applications_and_handles_travel() -> None:
    app = cloudpickle.loads(cloudpickle.dumps(Model.bind("x")))
    assert app._bound_deployment.init_args == ("x",)
    handle = DeploymentHandle("Model", "app").options(stream=True).predict
    assert pickle.loads(pickle.dumps(handle)) == handle
    assert handle != DeploymentHandle("Model", "app")


@pytest.mark.parametrize(
    "error",
    [
        BackPressureError(3, 2, 429, 1.5),
        RequestCancelledError("id"),
        DeploymentUnavailableError(DeploymentHandle("Model").deployment_id, "it was tired"),
    ],
)
def test_errors_survive_pickling(error: SkateServeError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize(
    ("name", "value"), [("tracing_config", {"sampling_ratio": 1}), ("grpc_options", 3)]
)
def test_starts_that_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} takes .*; got"):
        serve.start(**{name: value})
    assert not skate.is_initialized()


def test_nobody_scales_from_outside() -> None:
    with pytest.raises(ValueError, match="external_scaler_enabled takes False"):
        serve.run(Model.bind(), external_scaler_enabled=True)
    assert not skate.is_initialized()


@pytest.mark.parametrize(
    ("running", "location", "given", "older", "text"),
    [
        ({"port": 1}, None, {"port": 8000}, {}, r"port=1, .*asked for was port=8000"),
        ({"port": 1}, None, None, {"http_host": "h"}, r"host='127.0.0.1', .*host='h'"),
        ({}, None, HTTPOptions(root_path="/r"), {}, r"root_path='', .*root_path='/r'"),
        ({}, "Disabled", None, {}, "with HTTP, .*one without it"),
        (None, None, {"port": 8000}, {}, "without HTTP, .*one with it"),
    ],
)
def test_a_second_start_changes_nothing_and_says_so(
    running: dict[str, Any] | None, location: Any, given: Any, older: dict[str, Any], text: str
) -> None:
    has = None if running is None else HTTPOptions(**running)
    with pytest.warns(UserWarning, match=text):
        warn_of_others(has, *read_http_options(location, with_older_http_options(given, older)))


@pytest.mark.parametrize("given", [None, {"port": 0}, {"port": 1}])
def test_a_second_start_with_the_same_is_quiet(given: Any, recwarn: Any) -> None:
    running = HTTPOptions(port=1)
    older = with_older_http_options(given, {"detached": True})
    warn_of_others(running, *read_http_options(None, older))
    warn_of_others(running, *read_http_options("EveryNode", given))
    assert not recwarn.list


def test_names_that_only_ray_has() -> None:
    with pytest.raises(AttributeError, match="_tracing_startup_hook"):
        _ = serve.TracingConfig
    with pytest.raises(AttributeError, match="did you mean 'ingress'"):
        _ = serve.ingres
    with pytest.raises(ValueError, match="a serialization takes"):
        DeploymentHandle("Model").options(request_serialization="xml")


def test_nothing_runs() -> None:
    assert not skate.is_initialized()
    assert serve.status().applications == {}
    serve.shutdown()
    with pytest.raises(SkateServeError, match=r"serve\.start"):
        serve.get_app_handle("default")
    with pytest.raises(SkateServeError, match="only be called from within a replica"):
        serve.get_replica_context()
    assert not skate.is_initialized()


def test_unit_tests_need_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skate.serve._api._default_http", lambda: HTTPOptions(port=0))

    @serve.deployment
    class Greeter:
        async def __call__(self, name: str) -> str:
            return f"hello {name} from {serve.get_replica_context().deployment}"

    try:
        handle = serve.run(Greeter.bind(), route_prefix=None, _local_testing_mode=True)
        assert handle.remote("you").result() == "hello you from Greeter"
        with pytest.raises(SkateServeError, match="only be called from within a replica"):
            serve.get_replica_context()
    finally:
        serve.shutdown()
        skate.shutdown()


def test_wrong_settings_are_validation_errors() -> None:
    with pytest.raises(ValidationError, match="min_replicas"):
        AutoscalingConfig(min_replicas=-1)
    with pytest.raises(ValidationError, match="max_replicas") as info:
        AutoscalingConfig(max_replicas="many")  # type: ignore[arg-type]
    assert isinstance(info.value, TypeError)
    same = pickle.loads(pickle.dumps(info.value))
    assert (type(same), str(same)) == (type(info.value), str(info.value))
