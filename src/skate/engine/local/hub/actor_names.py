"""Actors by their names, each within a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate import exceptions
from skate.engine.local.hub.actors import HubActor

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.work import HubTask
    from skate.engine.specs import ActorMeta, ActorOptions


class ActorNames:
    """The names that are taken."""

    def __init__(self, own_namespace: str, names: dict[tuple[str, str], HubActor]) -> None:
        self._own_namespace = own_namespace
        self._names = names

    def new_actor(
        self, creation: HubTask, options: ActorOptions, meta: ActorMeta, packed_meta: Packed
    ) -> HubActor:
        """Return an actor that is to be created by this task."""
        settings = creation.plan.settings
        assert settings is not None
        concurrent = settings["is_async"] or settings["max_concurrency"] > 1
        concurrent = concurrent or bool(settings["concurrency_groups"])
        actor = HubActor(creation, options, meta.class_name, packed_meta, concurrent)
        actor.qualified_name = meta.qualified_name or meta.class_name
        actor.key = self._key(options.name, options.namespace)
        creation.actor = actor
        return actor

    def claim(self, options: ActorOptions) -> HubActor | None:
        """Return None if the name is free, or the existing actor if that is wanted.

        Raises:
            ActorAlreadyExistsError: If the name is taken, and the existing actor is not wanted.
        """
        if options.name is None:
            return None
        existing = self._names.get(self._key(options.name, options.namespace))
        if existing is None or options.get_if_exists:
            return existing
        raise exceptions.ActorAlreadyExistsError(
            f"The name {options.name!r} is already taken by an actor in namespace "
            f"{options.namespace or self._own_namespace!r}; use get_actor, or "
            "get_if_exists=True"
        )

    def find(self, name: str, namespace: str | None) -> HubActor:
        """Return an actor by its name. Raises ValueError."""
        actor = self._names.get(self._key(name, namespace))
        if actor is None:
            known = [f"{name!r} (in {namespace!r})" for namespace, name in self._names]
            names = ", ".join(known) or "none"
            raise ValueError(
                f"Failed to look up actor with name {name!r}: there is none in namespace "
                f"{namespace or self._own_namespace!r}; actors with names: {names}. "
                "A name does not keep an actor: keep its handle, or make it with "
                "lifetime='detached'; actors of other programs are not found"
            )
        return actor

    def all(self, all_namespaces: bool) -> list[tuple[str, str]]:
        """Return namespaces and names of actors."""
        own = self._own_namespace
        return [
            (namespace, name)
            for namespace, name in self._names
            if all_namespaces or namespace == own
        ]

    def _key(self, name: str | None, namespace: str | None) -> tuple[str, str]:
        return namespace or self._own_namespace, name or ""
