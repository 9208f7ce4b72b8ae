"""Of `ray.serve.deployment` and `ray.serve._private.api`: deployments as schemas, and back."""

from __future__ import annotations

from typing import Any

from skate.serve._application.config_files import built
from skate.serve._application.options import check
from skate.serve._deployment import Deployment

__all__ = ["deployment_to_schema", "schema_to_deployment"]

call_user_app_builder_with_args_if_necessary = built

_NOT_IN_SCHEMAS = ("name", "route_prefix", "version", "max_constructor_retry_count")


def deployment_to_schema(deployment: Deployment) -> Any:
    """Return the schema that a config file would have for a deployment."""
    from skate.serve.schema import DeploymentSchema, RayActorOptionsSchema

    given = {k: v for k, v in deployment._given.items() if k not in _NOT_IN_SCHEMAS}
    if given.get("ray_actor_options") is not None:
        given["ray_actor_options"] = RayActorOptionsSchema(**given["ray_actor_options"])
    return DeploymentSchema(name=deployment.name, **given)


def schema_to_deployment(schema: Any) -> Deployment:
    """Return a deployment with the options of a schema, and without code."""
    return Deployment(schema.name, _no_code, check(schema.options()))


def _no_code(*args: object) -> None:
    """Stand for the code of a deployment that only has options."""
