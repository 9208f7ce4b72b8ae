"""Identifiers: fixed-size bytes with names for their kinds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from skate._core.argument_checks import whole_number, wrong_type, wrong_value

if TYPE_CHECKING:
    from typing_extensions import Self

    from skate._core.refs import ObjectRef


class BaseID:
    """An identifier; equal to another of the same kind with the same bytes."""

    __slots__ = ("_bytes",)
    SIZE: ClassVar[int] = 28

    def __init__(self, id: bytes) -> None:
        if not isinstance(id, (bytes, bytearray, memoryview)):
            raise wrong_type(type(self).__name__, id, f"{self.SIZE} bytes")
        if len(id) != self.SIZE:
            raise ValueError(f"a {type(self).__name__} has {self.SIZE} bytes; got {len(id)}")
        self._bytes = bytes(id)

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> Self:
        return cls(id_bytes)

    @classmethod
    def from_hex(cls, hex_id: str | bytes) -> Self:
        return cls(bytes_of_hex(f"{cls.__name__}.from_hex()", hex_id))

    @classmethod
    def from_random(cls) -> Self:
        return cls(os.urandom(cls.SIZE))

    @classmethod
    def nil(cls) -> Self:
        return cls(b"\xff" * cls.SIZE)

    @classmethod
    def size(cls) -> int:
        return cls.SIZE

    def binary(self) -> bytes:
        return self._bytes

    def hex(self) -> str:
        return self._bytes.hex()

    def is_nil(self) -> bool:
        return self._bytes == b"\xff" * self.SIZE

    def redis_shard_hash(self) -> int:
        """A number that spreads ids evenly over shards."""
        return int.from_bytes(self._bytes[-8:], "big")

    def __bytes__(self) -> bytes:
        return self._bytes

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hex()})"

    def __reduce__(self) -> Any:
        return type(self), (self._bytes,)


class JobID(BaseID):
    SIZE: ClassVar[int] = 4

    @classmethod
    def from_int(cls, value: int) -> JobID:
        if not 0 <= whole_number("value", value, 0) < 1 << 8 * cls.SIZE:
            raise wrong_value("value", value, f"a number of at most {(1 << 8 * cls.SIZE) - 1}")
        return cls(value.to_bytes(cls.SIZE, "big"))

    def int(self) -> int:
        return int.from_bytes(self._bytes, "big")


class UniqueID(BaseID):
    """An identifier of anything that has no kind of its own."""

    SIZE: ClassVar[int] = 28


class NodeID(UniqueID):
    """The identifier of a machine."""


class WorkerID(UniqueID):
    """The identifier of a process that runs tasks."""


class FunctionID(UniqueID):
    """The identifier of a remote function."""


class ActorClassID(UniqueID):
    """The identifier of a remote class."""


class PlacementGroupID(BaseID):
    """Ends with the job it belongs to."""

    SIZE: ClassVar[int] = 18

    @classmethod
    def of(cls, job_id: JobID) -> PlacementGroupID:
        return cls(os.urandom(cls.SIZE - JobID.SIZE) + job_id.binary())


class ActorID(BaseID):
    """Ends with the job it belongs to."""

    SIZE: ClassVar[int] = 16

    @classmethod
    def of(cls, job_id: JobID, parent_task_id: TaskID, parent_task_counter: int) -> ActorID:
        unique = _digest(cls.SIZE - JobID.SIZE, parent_task_id, parent_task_counter)
        return cls(unique + job_id.binary())

    @property
    def job_id(self) -> JobID:
        return JobID(self._bytes[-JobID.SIZE :])


class TaskID(BaseID):
    """Ends with the actor it runs on (a nil one for plain tasks), and so with its job."""

    SIZE: ClassVar[int] = 24

    @classmethod
    def for_driver_task(cls, job_id: JobID) -> TaskID:
        return cls(b"\xff" * (cls.SIZE - JobID.SIZE) + job_id.binary())

    @classmethod
    def for_fake_task(cls, job_id: JobID) -> TaskID:
        return cls(os.urandom(cls.SIZE - JobID.SIZE) + job_id.binary())

    @classmethod
    def for_normal_task(
        cls, job_id: JobID, parent_task_id: TaskID, parent_task_counter: int
    ) -> TaskID:
        actor = b"\xff" * (ActorID.SIZE - JobID.SIZE) + job_id.binary()
        return cls(_digest(cls.SIZE - ActorID.SIZE, parent_task_id, parent_task_counter) + actor)

    @classmethod
    def for_actor_creation_task(cls, actor_id: ActorID) -> TaskID:
        return cls(b"\x00" * (cls.SIZE - ActorID.SIZE) + actor_id.binary())

    @classmethod
    def for_actor_task(
        cls, job_id: JobID, parent_task_id: TaskID, parent_task_counter: int, actor_id: ActorID
    ) -> TaskID:
        unique = _digest(cls.SIZE - ActorID.SIZE, job_id, parent_task_id, parent_task_counter)
        return cls(unique + actor_id.binary())

    def actor_id(self) -> ActorID:
        return ActorID(self._bytes[-ActorID.SIZE :])

    def job_id(self) -> JobID:
        return JobID(self._bytes[-JobID.SIZE :])


def bytes_of_hex(name: str, hex_id: Any) -> bytes:
    """Return the bytes that `hex_id` spells; `name` is whose argument it is."""
    if isinstance(hex_id, bytes):
        hex_id = hex_id.decode("ascii", "replace")
    if not isinstance(hex_id, str):
        raise wrong_type(name, hex_id, "hexadecimal digits")
    try:
        return bytes.fromhex(hex_id)
    except ValueError:
        raise wrong_value(name, hex_id, "hexadecimal digits") from None


def _digest(size: int, *parts: BaseID | int) -> bytes:
    import hashlib

    return hashlib.blake2b(repr(parts).encode(), digest_size=size).digest()


def actor_id_of(ref: ObjectRef[Any]) -> ActorID:
    """The actor that a reference made by `create_actor` stands for."""
    return ActorID(ref.binary()[-ActorID.SIZE :])
