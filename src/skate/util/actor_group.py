"""Several actors of one class, called together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import skate
from skate._core.argument_checks import mapping, whole_number, wrong_type
from skate._core.refs import ObjectRef

__all__ = ["ActorGroup", "ActorGroupMethod", "ActorWrapper"]


@dataclass
class ActorWrapper:
    """Hold one actor of a group.

    Args:
        actor: The actor's handle.
        metadata: What its `get_actor_metadata()` said, if it has that method.
    """

    actor: skate.ActorHandle[Any]
    metadata: Any = None


class ActorGroupMethod:
    """Call a method of all actors of a group; an attribute of the group.

    Args:
        actor_group: The group.
        method_name: The method.
    """

    def __init__(self, actor_group: ActorGroup, method_name: str) -> None:
        self._group = actor_group
        self._method_name = method_name

    def remote(self, *args: object, **kwargs: object) -> list[ObjectRef[Any]]:
        """Call the method of every actor; returns a reference for each, in their order."""
        methods = [getattr(member.actor, self._method_name) for member in self._group.actors]
        return [method.remote(*args, **kwargs) for method in methods]

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise TypeError(
            "Methods of an ActorGroup cannot be called directly: use "
            f"group.{self._method_name}.remote(...)"
        )


class ActorGroup:
    """Start actors of one class whose methods are called together: `group.method.remote(...)`.

    Args:
        actor_cls: The class, not yet made remote.
        num_actors: How many actors to start; at least 1.
        num_cpus_per_actor: CPUs that each reserves.
        num_gpus_per_actor: GPUs that each reserves.
        resources_per_actor: Other resources that each reserves.
        init_args: Positional arguments of each constructor.
        init_kwargs: Keyword arguments of each constructor.

    Example:
        >>> from skate.util.actor_group import ActorGroup
        >>> class Counter:
        ...     value = 0
        ...     def increment(self) -> int:
        ...         self.value += 1
        ...         return self.value
        >>> group = ActorGroup(Counter, num_actors=2)
        >>> skate.get(group.increment.remote())
        [1, 1]
        >>> group.shutdown()
    """

    def __init__(
        self,
        actor_cls: type,
        num_actors: int = 1,
        num_cpus_per_actor: float = 1,
        num_gpus_per_actor: float = 0,
        resources_per_actor: dict[str, float] | None = None,
        init_args: tuple[object, ...] | None = None,
        init_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(actor_cls, type):
            raise wrong_type("actor_cls", actor_cls, "a class that is not remote yet")
        whole_number("num_actors", num_actors)
        init_kwargs = dict(mapping("init_kwargs", init_kwargs))
        make: Any = skate.remote(
            num_cpus=num_cpus_per_actor,
            num_gpus=num_gpus_per_actor,
            resources=resources_per_actor,
        )
        self.actors: list[ActorWrapper] = []
        self.num_actors = num_actors
        self._class = make(actor_cls)
        self._arguments = (init_args or (), init_kwargs)
        self.start()

    def __getattr__(self, name: str) -> ActorGroupMethod:
        if name.startswith("_"):
            raise AttributeError(name)
        if not self.actors:
            raise RuntimeError(
                f"the actors of this group are shut down: start() it to call {name}"
            )
        getattr(self.actors[0].actor, name)  # raises AttributeError if the class has none
        return ActorGroupMethod(self, name)

    def __len__(self) -> int:
        return len(self.actors)

    def __getitem__(self, index: int) -> ActorWrapper:
        return self.actors[index]

    @property
    def actor_metadata(self) -> list[Any]:
        """What each actor's `get_actor_metadata()` said; None where there is no such method."""
        return [member.metadata for member in self.actors]

    def start(self) -> None:
        """Start `num_actors` actors again, after `shutdown()`."""
        if self.actors:
            raise RuntimeError("the actors of this group run already: shutdown() them first")
        self.add_actors(self.num_actors)

    def add_actors(self, num_actors: int) -> None:
        """Start more actors.

        Args:
            num_actors: How many.
        """
        args, kwargs = self._arguments
        added = [self._class.remote(*args, **kwargs) for _ in range(num_actors)]
        described = hasattr(self._class._cls, "get_actor_metadata")
        facts = skate.get([actor.get_actor_metadata.remote() for actor in added if described])
        facts = facts or [None] * len(added)
        self.actors += [ActorWrapper(*pair) for pair in zip(added, facts, strict=True)]

    def remove_actors(self, actor_indexes: Iterable[int]) -> None:
        """Let some actors go; those that nobody else refers to end.

        Args:
            actor_indexes: Which ones, by their places in the group.
        """
        gone = set(actor_indexes)
        kept = [member for index, member in enumerate(self.actors) if index not in gone]
        self.actors = kept

    def shutdown(self, patience_s: float = 5) -> None:
        """End all actors.

        Args:
            patience_s: Seconds for calls under way to finish, before the actors are killed; 0
                kills them at once.
        """
        ended = [member.actor.__ray_terminate__.remote() for member in self.actors]
        pending = ended
        if patience_s > 0 and ended:
            _, pending = skate.wait(ended, num_returns=len(ended), timeout=patience_s)
        for member, end in zip(self.actors, ended, strict=True):
            if end in pending:
                skate.kill(member.actor)
        self.actors = []
