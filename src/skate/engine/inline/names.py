"""Named actors. A name does not keep its actor alive, unless the actor is detached."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from skate._core.refs import ObjectRef
from skate.exceptions import ActorAlreadyExistsError

Key = tuple[str, Any]  # namespace, name


class Names:
    def __init__(self) -> None:
        self._refs: WeakValueDictionary[Key, ObjectRef[Any]] = WeakValueDictionary()
        self._detached: dict[Key, ObjectRef[Any]] = {}

    def add(self, key: Key, ref: ObjectRef[object], detached: bool) -> None:
        if key[1] is not None:
            self._refs[key] = ref
        if detached:
            self._detached[(key[0], key[1] or ref.hex())] = ref

    def find(self, key: Key) -> ObjectRef[object] | None:
        ref = self._refs.get(key)
        if ref is None or ref._entry.actor is None or ref._entry.actor.death is not None:
            return None
        return ref

    def check_free(self, key: Key) -> None:
        if key[1] is not None and self.find(key) is not None:
            raise ActorAlreadyExistsError(
                f"The name {key[1]!r} is already taken in namespace {key[0]!r}: use get_actor, or "
                "options(get_if_exists=True), or another name"
            )

    def get(self, key: Key) -> ObjectRef[Any]:
        ref = self.find(key)
        if ref is None:
            there = ", ".join(repr(name) for space, name in self.all() if space == key[0])
            raise ValueError(
                f"Failed to look up actor with name {key[1]!r}: there is none in namespace "
                f"{key[0]!r}; named actors there: {there or 'none'}"
            )
        return ref

    def all(self) -> list[Key]:
        return [key for key in list(self._refs) if self.find(key) is not None]

    def clear(self) -> None:
        self._detached.clear()
