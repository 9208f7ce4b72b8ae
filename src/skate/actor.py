"""Ray's path to actor classes and handles."""

from skate._actor import (
    ActorClass,
    ActorClassInheritanceError,
    ActorHandle,
    ActorMethod,
    exit_actor,
    method,
)

ActorClassInheritanceException = ActorClassInheritanceError  # Ray's name

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "exit_actor",
    "method",
]
