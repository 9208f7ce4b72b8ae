"""Where each `ray.serve.x` lives in skate; a part of `_table`."""

from __future__ import annotations

_CLIENT = "skate.compat.parts.serving.client"
_COMMON = ("skate.compat.parts.serving.common",)
_INSIDE = "skate.compat.parts.inside"

HOMES_OF_SERVING: dict[str, tuple[str, ...]] = {
    "ray.serve": (
        "skate.serve",
        "skate.compat.parts.serving.starlette_modules",
        "skate.compat.parts.serving.older_deployments",
    ),
    "ray.serve._private": ("skate.compat.parts.serving", _INSIDE),
    "ray.serve._private.api": ("skate.serve", _INSIDE),
    "ray.serve._private.client": (_CLIENT,),
    "ray.serve._private.common": _COMMON,
    "ray.serve._private.config": ("skate.serve.config", _INSIDE),
    "ray.serve._private.constants": ("skate.compat.parts.serving.constants",),
    "ray.serve._private.http_util": ("skate.compat.parts.serving.http_util", _INSIDE),
    "ray.serve._private.utils": _COMMON,
    "ray.serve.api": (
        "skate.serve",
        "skate.serve.handle",
        "skate.compat.parts.serving.older_deployments",
    ),
    "ray.serve.autoscaling_policy": ("skate.serve.config", _INSIDE),
    "ray.serve.context": ("skate.serve.context", _CLIENT),
    "ray.serve.dag": ("skate.dag",),
    "ray.serve.deployment": ("skate.serve._deployment",),
    "ray.serve.generated": (_INSIDE,),
    "ray.serve.grpc_util": (_INSIDE,),
    "ray.serve.handle": ("skate.serve.handle", "skate.compat.parts.serving.older_handles"),
    "ray.serve.metrics": ("skate.util.metrics",),
    "ray.serve.request_router": (_INSIDE,),
    "ray.serve.schema": (
        "skate.serve.schema",
        "skate.serve._status",
        "skate.serve.config",
        "skate.compat.parts.serving.details",
    ),
    "ray.serve.utils": _COMMON,
}

INSIDE_OF_SERVING = ("ray.serve._private.", "ray.serve.generated.")

_DRIVER = "write a deployment in front that takes the others by bind(...) and calls their handles"

REASONS_OF_SERVING = {
    "ray.serve.deployment_graph": _DRIVER,
    "ray.serve.drivers": _DRIVER,
    "ray.serve.gradio_integrations": "mount the Gradio application in one of FastAPI, and give "
    "that to serve.ingress",
    "ray.serve.llm": "it is not offered; use the ray engine",
}
