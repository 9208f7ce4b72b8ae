"""skate's references and Ray's counterparts of them.

    ObjectRef ──► Value   a ray.ObjectRef
              ──► Stream  a ray.ObjectRefGenerator and the reference of its task
              ──► Actor   a ray.actor.ActorHandle
              ──► Group   a placement group

The counterpart is held by the one skate reference that a process has per object, so Ray counts
exactly what skate counts. Ids are Ray's: 28 bytes of an object; those of actors (16 bytes) and
placement groups (18 bytes) are filled up in front, so that all kinds fit into one number.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import ray

from skate._core.refs import ObjectRef
from skate.exceptions import ActorHandleNotFoundError, ObjectLostError, StaleReferenceError

if TYPE_CHECKING:
    from skate.engine.base import Engine

_ACTOR_MARK = int.from_bytes(b"skate actor:", "big") << 128
_GROUP_BITS = 144


class Value:
    """An object."""

    __slots__ = ("arrived", "ref")

    def __init__(self, ref: object) -> None:
        self.ref: Any = ref
        self.arrived: list[Any] = []  # the value, if a callback has brought it

    def carrier(self) -> object:
        """Return what stands for it inside Ray's values."""
        return self.ref


class RayStream(Value):
    """A streaming task."""

    __slots__ = ("generator",)

    def __init__(self, generator: Any) -> None:
        super().__init__(generator.completed())
        self.generator: Any = generator


class RayActor:
    """An actor; also its methods with their options, as Ray wants them."""

    __slots__ = ("_ready", "arrived", "groups", "handle", "kept", "methods")

    def __init__(self, handle: object) -> None:
        self.handle: Any = handle
        self.methods: dict[Any, Any] = {}
        self.groups: Any = None  # concurrency groups, where they are known
        self.kept: Any = None  # references inside arguments for a restart: Ray forgets them
        self.arrived: list[Any] = []
        self._ready: Any = None

    @property
    def ref(self) -> Any:
        """Ready when the constructor is done."""
        if self._ready is None:
            self._ready = self.handle.constructed.remote()
        return self._ready

    def carrier(self) -> object:
        return self.handle


class RayGroup:
    """A placement group."""

    __slots__ = ("_ready", "arrived", "group")

    def __init__(self, group: object) -> None:
        self.group: Any = group
        self.arrived: list[Any] = []
        self._ready: Any = None

    @property
    def ref(self) -> Any:
        """Ready when all bundles are reserved."""
        if self._ready is None:
            self._ready = self.group.ready()
        return self._ready

    def forget_ready(self) -> None:
        """Forget that they were: the group was removed."""
        self._ready = None

    def carrier(self) -> object:
        return None  # its id says it all


class References:
    """The references of a session in this process, one per object. Also their `Home`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._refs: WeakValueDictionary[int, ObjectRef[Any]] = WeakValueDictionary()
        self._adopting = threading.Lock()

    def new(self, ray_ref: Any) -> ObjectRef[object]:
        """Make a reference for what Ray has just made."""
        return self._add(int.from_bytes(ray_ref.binary(), "big"), Value(ray_ref))

    def new_stream(self, generator: object) -> ObjectRef[Any]:
        entry = RayStream(generator)
        return self._add(int.from_bytes(entry.ref.binary(), "big"), entry)

    def _add(self, id: int, entry: object) -> ObjectRef[object]:
        ref: ObjectRef[Any] = ObjectRef(id, self, entry)
        self._refs[id] = ref
        return ref

    def of_carrier(self, carrier: object) -> ObjectRef[object]:
        """Return this process's reference for what arrived."""
        if isinstance(carrier, ray.ObjectRef):
            return self._known(int.from_bytes(carrier.binary(), "big"), Value, carrier)
        return self.of_actor(carrier)

    def of_actor(self, handle: Any) -> ObjectRef[object]:
        number = int.from_bytes(handle._actor_id.binary(), "big")
        return self._known(_ACTOR_MARK | number, RayActor, handle)

    def of_group(self, group: Any) -> ObjectRef[object]:
        return self._known(int.from_bytes(group.id.binary(), "big"), RayGroup, group)

    def _known(self, id: int, kind: Any, counterpart: object) -> ObjectRef[object]:
        ref = self._refs.get(id)
        if ref is None:
            with self._adopting:
                ref = self._refs.get(id) or self._add(id, kind(counterpart))
        return ref

    def of_id(self, id: int) -> ObjectRef[object]:
        """Return the reference with that id, if this process has it or it means a placement
        group."""
        ref = self._refs.get(id)
        if ref is not None:
            return ref
        if id >> _GROUP_BITS:
            raise _unknown(id)
        from ray.util.placement_group import PlacementGroup

        group_id = ray.PlacementGroupID(id.to_bytes(_GROUP_BITS // 8, "big"))
        return self._known(id, RayGroup, PlacementGroup(group_id))

    def ray_ref(self, ref: ObjectRef[object]) -> Any:
        """Return Ray's reference. Raise StaleReferenceError for one of another session."""
        if ref._home is not self:
            raise StaleReferenceError(ref.hex())
        return ref._entry.ref

    def actor(self, ref: ObjectRef[object]) -> RayActor:
        """Return the actor of a handle. Raise ActorHandleNotFoundError for one of another
        session."""
        if ref._home is not self:
            raise ActorHandleNotFoundError()
        actor: RayActor = ref._entry
        return actor


def _unknown(id: int) -> ObjectLostError:
    error = ObjectLostError(f"{id:056x}")
    error.reason = (
        "it was freed, or belongs to a session that was ended by shutdown(), or its id alone came "
        "here without the reference"
    )
    return error
