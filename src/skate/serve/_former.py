"""Spellings of deployments that Ray had once, with what to write today."""

from __future__ import annotations

_RUN = "write serve.run(app) with app = {name}.bind(...)"

_OF_DEPLOYMENT = {
    "deploy": _RUN + ", which returns a handle",
    "delete": 'write serve.delete("<application>")',
    "get_handle": 'write serve.get_deployment_handle("{name}", app_name=...), or use the handle '
    "that serve.run returns",
    "set_options": "write {name}.options(...), which returns a changed copy",
    "url": "serve.run(app, route_prefix=...) decides where an application is reached",
    "route_prefix": "write serve.run(app, route_prefix=...)",
    "set_logging_config": "logging is the program's, as by logging.basicConfig()",
    "remote": _RUN + " and call .remote(...) on the handle",
}


def of_deployment(deployment: str, name: str) -> str:
    """The text of the AttributeError for `deployment.name`."""
    today = _OF_DEPLOYMENT.get(name)
    text = f"deployment {deployment!r} has no attribute {name!r}"
    return f"{text}: {today.format(name=deployment)}" if today else text
