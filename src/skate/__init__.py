"""skate: Ray's tasks, actors and objects as an embedded library.

import skate

@skate.remote
def square(x):
    return x * x

skate.get([square.remote(i) for i in range(4)])  # [0, 1, 4, 9]
"""

from __future__ import annotations

from typing import Any

from skate._core.ids import (
    ActorClassID,
    ActorID,
    FunctionID,
    JobID,
    NodeID,
    PlacementGroupID,
    TaskID,
    UniqueID,
    WorkerID,
)
from skate._core.refs import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
from skate._facade.actor import ActorClass, ActorHandle, method
from skate._facade.api import (
    ClientContext,
    available_resources,
    cancel,
    cluster_resources,
    get,
    get_actor,
    get_gpu_ids,
    init,
    is_initialized,
    kill,
    nodes,
    put,
    shutdown,
    timeline,
    wait,
)
from skate._facade.remote import remote
from skate.runtime_context import get_runtime_context

__version__ = "0.1.0"

ObjectID = ObjectRef  # its name until Ray 1.0

__all__ = [
    "ActorClass",
    "ActorClassID",
    "ActorHandle",
    "ActorID",
    "ClientContext",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "LoggingConfig",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
    "__version__",
    "available_resources",
    "cancel",
    "client",
    "cluster_resources",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "wait",
]

_LAZY = frozenset(
    (
        "actor",
        "air",
        "client_builder",
        "compat",
        "dag",
        "data",
        "exceptions",
        "experimental",
        "job_config",
        "logging_config",
        "predict",
        "remote_function",
        "runtime_env",
        "serve",
        "train",
        "tune",
        "util",
    )
)


def __getattr__(name: str) -> Any:
    if name == "LoggingConfig":
        from skate.logging_config import LoggingConfig

        return LoggingConfig
    if name == "client":
        from skate.client_builder import client

        return client
    if name in _LAZY:
        from importlib import import_module

        try:
            return import_module(f"skate.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"skate.{name}":
                raise
    raise AttributeError(f"module 'skate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY})
