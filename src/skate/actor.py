"""Ray's path to actor classes and handles."""

from skate._actor import ActorClass, ActorHandle, ActorMethod, exit_actor, method

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor", "method"]
