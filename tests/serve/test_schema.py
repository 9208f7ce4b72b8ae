"""Config files."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pydantic
import pytest

from skate import serve
from skate.serve._application.config_files import application, read, specs_of
from skate.serve.config import AutoscalingPolicy
from skate.serve.schema import (
    DeploymentSchema,
    LoggingConfig,
    ServeApplicationSchema,
    ServeDeploySchema,
)


@serve.deployment(ray_actor_options={"num_cpus": 1})
class Model:
    def reconfigure(self, config: Any) -> None: ...


app = Model.bind()


class Arguments(pydantic.BaseModel):
    size: int


def typed(arguments: Arguments) -> Any:
    return Model.options(num_replicas=arguments.size).bind()


def no_application(arguments: dict[str, Any]) -> int:
    return 3


HERE = __name__


def config(**fields: Any) -> ServeDeploySchema:
    return ServeDeploySchema.model_validate({"applications": [fields]})


def test_overrides_reach_the_deployments() -> None:
    fields = {"num_replicas": 3, "user_config": {"a": 1}, "ray_actor_options": {"num_gpus": 0}}
    (spec,) = specs_of(
        config(
            name="a",
            route_prefix="/a",
            import_path=f"{HERE}:app",
            runtime_env={"env_vars": {"A": "1"}},
            deployments=[{"name": "Model", **fields}],
        )
    )
    (deployment,) = spec.deployments
    assert (spec.name, spec.route_prefix, spec.ingress) == ("a", "/a", "Model")
    assert deployment.options.num_replicas == 3
    assert deployment.options.user_config == {"a": 1}
    assert deployment.options.actor_options == {
        "num_cpus": 1,
        "num_gpus": 0,
        "runtime_env": {"env_vars": {"A": "1"}},
    }


def test_a_builder_gets_what_it_is_annotated_with() -> None:
    assert application(f"{HERE}:typed", {"size": "4"})._bound_deployment.num_replicas == 4


@pytest.mark.parametrize(
    ("path", "arguments", "text"),
    [
        (f"{HERE}:app", {"a": 1}, "is an application, and takes none"),
        (f"{HERE}:no_application", {}, "must return an application.*returned 3"),
        (f"{HERE}:HERE", {}, "Expected a built Serve application"),
    ],
)
def test_what_is_no_application(path: str, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        application(path, arguments)


def test_a_deployment_that_does_not_exist() -> None:
    with pytest.raises((TypeError, ValueError), match="Modle"):
        specs_of(config(import_path=f"{HERE}:app", deployments=[{"name": "Modle"}]))


@pytest.mark.parametrize(
    ("schema", "fields", "text"),
    [
        (DeploymentSchema, {"name": "a", "num_replica": 1}, "num_replica"),
        (DeploymentSchema, {"name": "a", "num_replicas": 0}, "at least 1"),
        (DeploymentSchema, {"name": "a", "max_ongoing_requests": 0}, "max_ongoing_requests"),
        (ServeApplicationSchema, {"import_path": "nothing"}, "module:app"),
        (ServeApplicationSchema, {"import_path": "a:b:c"}, "module:app"),
        (ServeApplicationSchema, {"import_path": "a:b", "route_prefix": "x"}, "route_prefix"),
        (
            ServeApplicationSchema,
            {
                "import_path": "a:b",
                "external_scaler_enabled": True,
                "deployments": [{"name": "mine", "num_replicas": "auto"}],
            },
            "external_scaler_enabled is set to True.*mine",
        ),
        (
            ServeDeploySchema,
            {"applications": [{"import_path": "a:b"}] * 2},
            "duplicate applications",
        ),
        (
            ServeDeploySchema,
            {"applications": [], "target_capacity": 101},
            "less than or equal to 100",
        ),
        (ServeApplicationSchema, {"import_path": "a:b", "port": 80}, "belongs to http_options"),
        (LoggingConfig, {"encoding": "XML"}, "encoding"),
        (LoggingConfig, {"log_level": "LOUD"}, "LOUD"),
        (LoggingConfig, {"colour": "red"}, "no field 'colour'"),
        (ServeDeploySchema, {"applications": [], "http_options": {"ssl_keyfile": "k"}}, "neither"),
    ],
)
def test_mistakes_in_a_config(schema: Any, fields: dict[str, Any], text: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=text):
        schema.model_validate(fields)


def test_a_field_of_another_version_is_left_out_with_a_warning(
    capfd: pytest.CaptureFixture[str],
) -> None:
    config = {"name": "a", "num_replicas": 2, "colour_of_another_time": "red"}
    assert DeploymentSchema.model_validate(config).num_replicas == 2
    assert "has no field 'colour_of_another_time'" in capfd.readouterr().err


def test_a_config_of_nothing() -> None:
    assert not ServeDeploySchema(**ServeDeploySchema.get_empty_schema_dict()).applications


def test_how_replicas_log() -> None:
    config = LoggingConfig(log_level=logging.DEBUG, additional_log_standard_attrs=["name"] * 2)
    assert (config.log_level, config.additional_log_standard_attrs) == ("DEBUG", ["name"])
    assert LoggingConfig(log_level="error").log_level == "ERROR"


def test_a_file_without_applications(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("import_path: a:b\n")
    with pytest.raises(ValueError, match="has no list `applications`"):
        read(str(tmp_path / "config.yaml"))


@pytest.mark.parametrize(
    "options",
    [
        {"num_replicas": 5, "autoscaling_config": {}},
        {"max_replicas_per_node": 2, "placement_group_bundles": [{"CPU": 1}]},
        {"placement_group_strategy": "PACK"},
        {"max_replicas_per_node": 500},
        {"max_queued_requests": 0},
        {"placement_group_bundle_label_selector": [{"zone": "a"}]},
        {
            "placement_group_bundles": [{"CPU": 1}] * 2,
            "placement_group_bundle_label_selector": [{"zone": "a"}] * 3,
        },
        {"autoscaling_config": {"min_replicas": 3, "max_replicas": 2}},
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="DeploymentSchema"):
        DeploymentSchema.model_validate({"name": "Model", **options})


def test_an_application_may_have_a_policy_for_all_its_deployments() -> None:
    policy = {"policy_function": "module:function", "policy_kwargs": {"most": 3}}
    app = ServeApplicationSchema(import_path="module:app", autoscaling_policy=policy)
    assert app.autoscaling_policy == AutoscalingPolicy("module:function", {"most": 3})
    assert app.model_dump(exclude_unset=True)["autoscaling_policy"] == policy
    wrong = {"policy_functon": "f"}
    with pytest.raises(pydantic.ValidationError, match="policy_function"):
        ServeApplicationSchema(import_path="module:app", autoscaling_policy=wrong)


def test_a_fraction_of_more_gpus_is_refused_when_a_replica_would_take_it() -> None:
    schema = DeploymentSchema(name="d", ray_actor_options={"num_gpus": 4.2})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_gpus"):
        serve.deployment(**schema.options())(print)
