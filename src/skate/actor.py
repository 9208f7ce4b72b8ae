"""Ray's path to actor classes and handles."""

from typing import Any, TypeVar, Union

from skate._actor import (
    ActorClass,
    ActorClassInheritanceError,
    ActorHandle,
    ActorMethod,
    exit_actor,
    method,
)

T = TypeVar("T")

# A handle that a checker may treat as an instance of its class, as in `ActorProxy[Counter]`.
ActorProxy: Any = Union[ActorHandle[T], type[T]]  # type: ignore[type-arg]  # noqa: UP007
ActorClassInheritanceException = ActorClassInheritanceError  # Ray's name

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "ActorProxy",
    "exit_actor",
    "method",
]
