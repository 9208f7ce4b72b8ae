"""Ray's path to actor classes and handles."""

from typing import Any, TypeVar, Union

from skate._core.public_names import name_publicly
from skate._facade.actor import ActorClass, ActorClassInheritanceError, exit_actor
from skate._facade.actor_handle import ActorHandle, ActorMethod
from skate._facade.methods import method

T = TypeVar("T")

# A handle that a checker may treat as an instance of its class, as in `ActorProxy[Counter]`.
_Handle: Any = ActorHandle
ActorProxy: Any = Union[_Handle[T], type[T]]  # noqa: UP007 - `|` would ask the metaclass
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

name_publicly(__name__)
