"""Runtime environments of tasks and actors: folders of this machine travel to the others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray._private.runtime_env.py_modules import upload_py_modules_if_needed
from ray._private.runtime_env.working_dir import upload_working_dir_if_needed


def for_ray(runtime_env: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Put addresses in the cluster's store in the place of folders and modules.

    Ray does that for a whole job only, and lets the modules of a task replace those of its job,
    among which skate itself may be.
    """
    if not runtime_env:
        return None
    found = dict(runtime_env)
    if "working_dir" in found:
        found["working_dir"] = str(found["working_dir"])
        found = _uploaded(upload_working_dir_if_needed, found)
    if "py_modules" in found:
        inherited = ray.get_runtime_context().runtime_env.get("py_modules") or []
        found["py_modules"] = [*found["py_modules"], *inherited]
        found = _uploaded(upload_py_modules_if_needed, found)
    return found


def _uploaded(upload: Callable[..., Any], runtime_env: dict[str, Any]) -> dict[str, Any]:
    # Older versions always respect .gitignore; the newer ones ask.
    asks = "include_gitignore" in inspect.signature(upload).parameters
    session = ray._private.worker.global_worker.node
    given = {"include_gitignore": True} if asks else {}
    scratch = session.get_runtime_env_dir_path() if session is not None else None
    return dict(upload(runtime_env, scratch_dir=scratch, **given))
