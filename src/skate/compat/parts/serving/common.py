"""`ray.serve._private.common` and `ray.serve._private.utils`: identities and small helpers."""

from __future__ import annotations

import enum
import os
import random
import string
import uuid

import skate
from skate.compat.parts.inside import Absent
from skate.serve._application.import_paths import call_by_path as call_function_from_import_path
from skate.serve._identity import DeploymentID, ReplicaID
from skate.serve._status import (
    ApplicationStatus,
    DeploymentStatus,
    DeploymentStatusTrigger,
    ReplicaState,
)

__all__ = [
    "DEFAULT",
    "ApplicationStatus",
    "DeploymentID",
    "DeploymentStatus",
    "DeploymentStatusTrigger",
    "ReplicaID",
    "ReplicaState",
    "RequestProtocol",
    "call_function_from_import_path",
    "generate_request_id",
    "get_component_file_name",
    "get_head_node_id",
    "get_random_string",
]


class RequestProtocol(str, enum.Enum):
    """How a request arrives."""

    UNDEFINED = "UNDEFINED"
    HTTP = "HTTP"
    GRPC = "gRPC"


class DEFAULT(enum.Enum):
    """An argument that was not given."""

    VALUE = 1


def generate_request_id() -> str:
    return str(uuid.uuid4())


def get_random_string(length: int = 8) -> str:
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=length))


def get_head_node_id() -> str:
    return str(skate.nodes()[0]["NodeID"])


def get_component_file_name(component_name: str, component_id: str, **_: object) -> str:
    return f"{component_name}_{component_id}_{os.getpid()}"


def __getattr__(name: str) -> Absent:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Absent(f"ray.serve._private.common.{name}")
