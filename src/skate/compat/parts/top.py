"""Names of `ray` itself that skate does without."""

from __future__ import annotations

import enum
import logging
from typing import Any, NoReturn

import skate
from skate.client_builder import ClientBuilder as ClientBuilder
from skate.compat._finder import RAY_VERSION
from skate.compat.parts.core.worker import LOCAL_MODE as LOCAL_MODE
from skate.compat.parts.core.worker import SCRIPT_MODE as SCRIPT_MODE
from skate.compat.parts.core.worker import WORKER_MODE as WORKER_MODE

__all__ = [
    "LOCAL_MODE",
    "SCRIPT_MODE",
    "WORKER_MODE",
    "ClientBuilder",
    "Language",
    "get_actor",
    "java_actor_class",
    "java_function",
    "logger",
]

__version__ = RAY_VERSION
__commit__ = "skate"

logger = logging.getLogger("ray")


class Language(enum.Enum):
    """The languages of Ray's tasks; skate runs Python."""

    PYTHON = 0
    JAVA = 1
    CPP = 2


def get_actor(name: str, namespace: str | None = None) -> Any:
    """Return the handle of a named actor; that of Serve's controller as its clients have it."""
    handle = skate.get_actor(name, namespace)
    if (name, namespace) != ("SERVE_CONTROLLER_ACTOR", "serve"):
        return handle
    from skate.compat.parts.serving import client

    return client.shown_controller(handle)


def java_function(class_name: str, function_name: str) -> NoReturn:
    """Refuse: skate runs Python only."""
    raise _no_java(f"the function {class_name}.{function_name}")


def java_actor_class(class_name: str) -> NoReturn:
    """Refuse: skate runs Python only."""
    raise _no_java(f"the class {class_name}")


def _no_java(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"{what} is of Java, and skate runs Python only: run the program on Ray itself"
    )
