"""Where each `ray.serve.x` lives in skate; a part of `_table`."""

from __future__ import annotations

_CLIENT = "skate.compat.parts.serving.client"
_COMMON = ("skate.compat.parts.serving.common",)
# Helpers of Ray's tests, which only add names where skate is installed from its repository.
_CONFIG_OF_TESTS = "ray_test_helpers.serving_config"
_SCHEMAS_OF_TESTS = "ray_test_helpers.serving_schemas"
_CONSTANTS = ("skate.compat.parts.serving.constants",)
_INSIDE = "skate.compat.parts.inside"
_REQUEST_ROUTER = ("skate.serve.request_router", _INSIDE)
_HTTP_UTIL = ("skate.compat.parts.serving.http_util", _INSIDE)

HOMES_OF_SERVING: dict[str, tuple[str, ...]] = {
    "ray._common.network_utils": ("skate.compat.parts.core.network_utils", _INSIDE),
    "ray.dashboard.modules.serve": (_INSIDE,),
    "ray.dashboard.modules.serve.sdk": (_INSIDE,),
    "ray.serve": (
        "skate.serve",
        "skate.compat.parts.serving.starlette_modules",
        "skate.compat.parts.serving.older_deployments",
    ),
    "ray.serve._private": ("skate.compat.parts.serving", _INSIDE),
    "ray.serve._private.api": ("skate.serve", _SCHEMAS_OF_TESTS, _INSIDE),
    "ray.serve._private.client": (_CLIENT,),
    "ray.serve._private.common": _COMMON,
    "ray.serve._private.config": (_CONFIG_OF_TESTS, "skate.serve.config", _INSIDE),
    "ray.serve._private.constants": _CONSTANTS,
    "ray.serve._private.http_util": _HTTP_UTIL,
    **dict.fromkeys(
        (
            "ray.serve._private.request_router",
            "ray.serve._private.request_router.common",
            "ray.serve._private.request_router.pow_2_router",
            "ray.serve._private.request_router.replica_wrapper",
            "ray.serve._private.request_router.request_router",
        ),
        _REQUEST_ROUTER,
    ),
    "ray.serve._private.utils": _COMMON,
    "ray.serve.api": (
        "skate.serve",
        "skate.serve.handle",
        "skate.compat.parts.serving.older_deployments",
    ),
    "ray.serve.application": ("skate.serve", _INSIDE),
    "ray.serve.autoscaling_policy": (
        "skate.serve.autoscaling_policy",
        "skate.serve.config",
        _INSIDE,
    ),
    "ray.serve.common": _COMMON,
    "ray.serve.constants": _CONSTANTS,
    "ray.serve.context": ("skate.serve.context", _CLIENT),
    "ray.serve.dag": ("skate.dag",),
    "ray.serve.deployment": ("skate.serve._deployment", _SCHEMAS_OF_TESTS),
    "ray.serve.deployment_graph": (
        "skate.serve.deployment_graph",
        "skate.compat.parts.serving.older_handles",
    ),
    "ray.serve.drivers_utils": ("skate.serve.drivers",),
    "ray.serve.generated": (_INSIDE,),
    "ray.serve.handle": ("skate.serve.handle", "skate.compat.parts.serving.older_handles"),
    "ray.serve.http_util": _HTTP_UTIL,
    "ray.serve.request_router": _REQUEST_ROUTER,
    "ray.serve.schema": (
        "skate.serve.schema",
        "skate.serve._status",
        "skate.serve.config",
        "skate.serve.task_processor",
        "skate.compat.parts.serving.details",
    ),
    "ray.serve.utils": (*_COMMON, "skate.serve.context"),
}

INSIDE_OF_SERVING = (
    "ray.serve._private.",
    "ray.serve.generated.",
    # where it was before `_private`
    "ray.serve.autoscaling_metrics",
    "ray.serve.controller",
    "ray.serve.deployment_state",
    "ray.serve.http_proxy",
    "ray.serve.http_state",
    "ray.serve.long_poll",
    "ray.serve.pipeline",
    "ray.serve.router",
    "ray.serve.storage",
)

REASONS_OF_SERVING = {
    "ray.serve.llm": "it is not offered; use the ray engine",
}
