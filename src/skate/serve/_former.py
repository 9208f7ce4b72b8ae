"""Spellings of serving that Ray had once, with what to write today."""

from __future__ import annotations

_RUN = "write serve.run(app) with app = {name}.bind(...)"

_DRIVER = (
    "write a deployment in front that takes the others by bind(...) and calls their handles; "
    "serve.http_adapters still has the functions that read requests"
)

_OF_DEPLOYMENT = {
    "deploy": _RUN + ", which returns a handle",
    "delete": 'write serve.delete("<application>")',
    "get_handle": 'write serve.get_deployment_handle("{name}", app_name=...), or use the handle '
    "that serve.run returns",
    "set_options": "write {name}.options(...), which returns a changed copy",
    "url": "serve.run(app, route_prefix=...) decides where an application is reached",
    "route_prefix": "write serve.run(app, route_prefix=...)",
    "version": "skate.serve sees by itself what changed",
    "remote": _RUN + " and call .remote(...) on the handle",
}

_OF_SERVE = {
    "create_backend": "write @serve.deployment and serve.run(app)",
    "create_endpoint": "write @serve.deployment and serve.run(app, route_prefix=...)",
    "get_deployment": "write serve.get_deployment_handle(name, app_name=...)",
    "list_deployments": "write serve.status().applications[name].deployments",
    "get_handle": "write serve.get_deployment_handle(name, app_name=...)",
    "delete_backend": "write serve.delete(name)",
    "delete_endpoint": "write serve.delete(name)",
    "connect": "serve finds a running instance by itself; leave it out",
    "init": "write serve.start()",
    "build": "write serve.run(app)",
    "DAGDriver": _DRIVER,
    "drivers": _DRIVER,
    "deployment_graph": _DRIVER,
    "RayServeHandle": "it is serve.handle.DeploymentHandle",
    "RayServeSyncHandle": "it is serve.handle.DeploymentHandle; .result() waits",
    "set_traffic": "run the parts as deployments, with one in front that chooses",
    "update_backend_config": "write deployment.options(...) and serve.run(app)",
}


def of_deployment(deployment: str, name: str) -> str:
    """The text of the AttributeError for `deployment.name`."""
    today = _OF_DEPLOYMENT.get(name)
    text = f"deployment {deployment!r} has no attribute {name!r}"
    return f"{text}: {today.format(name=deployment)}" if today else text


def of_serve(name: str) -> str:
    """The text of the AttributeError for `serve.name`."""
    today = _OF_SERVE.get(name)
    text = f"module 'skate.serve' has no attribute {name!r}"
    return f"{text}: {today}" if today else text
