"""Identifiers: fixed-size bytes with names for their kinds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from skate._core.argument_checks import whole_number, wrong_type, wrong_value

if TYPE_CHECKING:
    from typing_extensions import Self

    from skate._core.refs import ObjectRef


class BaseID:
    """Identify something by bytes; equal to another of the same kind with the same bytes.

    Args:
        id: The bytes, exactly as many as `size()` says.

    Raises:
        TypeError: If these are no bytes.
        ValueError: If there are too few or too many.

    Example:
        >>> job = skate.JobID.from_int(7)
        >>> job == skate.JobID.from_hex(job.hex())
        True
    """

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
        """Return the identifier that has these bytes.

        Args:
            id_bytes: What `binary()` of an identifier of the same kind has returned.

        Raises:
            ValueError: If there are too few or too many.
        """
        return cls(id_bytes)

    @classmethod
    def from_hex(cls, hex_id: str | bytes) -> Self:
        """Return the identifier that `hex()` writes this way.

        Args:
            hex_id: Two hexadecimal digits for each byte.

        Raises:
            ValueError: If it is not hexadecimal, or too short or long.
        """
        return cls(bytes_of_hex(f"{cls.__name__}.from_hex()", hex_id))

    @classmethod
    def from_random(cls) -> Self:
        """Return an identifier that nothing else has, by chance."""
        return cls(os.urandom(cls.SIZE))

    @classmethod
    def nil(cls) -> Self:
        """Return the identifier of nothing."""
        return cls(b"\xff" * cls.SIZE)

    @classmethod
    def size(cls) -> int:
        """Return how many bytes an identifier of this kind has."""
        return cls.SIZE

    def binary(self) -> bytes:
        """Return the bytes."""
        return self._bytes

    def hex(self) -> str:
        """Return the bytes as hexadecimal digits."""
        return self._bytes.hex()

    def is_nil(self) -> bool:
        """Return whether it identifies nothing."""
        return self._bytes == b"\xff" * self.SIZE

    def redis_shard_hash(self) -> int:
        """Return a number that spreads identifiers evenly over shards."""
        return int.from_bytes(self._bytes[-8:], "big")

    def __bytes__(self) -> bytes:
        return self._bytes

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hex()})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._bytes,)


class JobID(BaseID):
    """Identify a program that uses skate.

    Args:
        id: Four bytes.
    """

    SIZE: ClassVar[int] = 4

    @classmethod
    def from_int(cls, value: int) -> JobID:
        """Return the identifier of the job with a number.

        Args:
            value: The number; at least 0, and of at most four bytes.

        Raises:
            ValueError: If it is out of range.
        """
        if not 0 <= whole_number("value", value, 0) < 1 << 8 * cls.SIZE:
            raise wrong_value("value", value, f"a number of at most {(1 << 8 * cls.SIZE) - 1}")
        return cls(value.to_bytes(cls.SIZE, "little"))

    def int(self) -> int:
        """Return the number of the job."""
        return int.from_bytes(self._bytes, "little")


class UniqueID(BaseID):
    """Identify anything that has no kind of its own.

    Args:
        id: Twenty-eight bytes.
    """

    SIZE: ClassVar[int] = 28


class NodeID(UniqueID):
    """Identify a machine.

    Args:
        id: Twenty-eight bytes.
    """


class WorkerID(UniqueID):
    """Identify a process that runs tasks.

    Args:
        id: Twenty-eight bytes.
    """


class FunctionID(UniqueID):
    """Identify a remote function.

    Args:
        id: Twenty-eight bytes.
    """


class ActorClassID(UniqueID):
    """Identify a remote class.

    Args:
        id: Twenty-eight bytes.
    """


class PlacementGroupID(BaseID):
    """Identify a placement group; ends with the job that the group belongs to.

    Args:
        id: Eighteen bytes.
    """

    SIZE: ClassVar[int] = 18

    @classmethod
    def of(cls, job_id: JobID) -> PlacementGroupID:
        """Return a new identifier for a group of a job.

        Args:
            job_id: The job that the group belongs to.
        """
        return cls(os.urandom(cls.SIZE - JobID.SIZE) + job_id.binary())


class ActorID(BaseID):
    """Identify an actor; ends with the job that the actor belongs to.

    Args:
        id: Sixteen bytes.
    """

    SIZE: ClassVar[int] = 16

    @classmethod
    def of(cls, job_id: JobID, parent_task_id: TaskID, parent_task_counter: int) -> ActorID:
        """Return the identifier of the actor that a task makes.

        Args:
            job_id: The job that the actor belongs to.
            parent_task_id: The task that makes it.
            parent_task_counter: How many tasks and actors that task has made before.
        """
        unique = _digest(cls.SIZE - JobID.SIZE, parent_task_id, parent_task_counter)
        return cls(unique + job_id.binary())

    @property
    def job_id(self) -> JobID:
        """Return the identifier of the job that the actor belongs to."""
        return JobID(self._bytes[-JobID.SIZE :])


class TaskID(BaseID):
    """Identify a task; ends with the actor that it runs on, a nil one for plain tasks.

    Args:
        id: Twenty-four bytes.
    """

    SIZE: ClassVar[int] = 24

    @classmethod
    def for_driver_task(cls, job_id: JobID) -> TaskID:
        """Return the identifier that stands for the program of a job itself.

        Args:
            job_id: The job.
        """
        return cls(b"\xff" * (cls.SIZE - JobID.SIZE) + job_id.binary())

    @classmethod
    def for_fake_task(cls, job_id: JobID) -> TaskID:
        """Return a new identifier of no task, that ends with a job.

        Args:
            job_id: The job.
        """
        return cls(os.urandom(cls.SIZE - JobID.SIZE) + job_id.binary())

    @classmethod
    def for_normal_task(
        cls, job_id: JobID, parent_task_id: TaskID, parent_task_counter: int
    ) -> TaskID:
        """Return the identifier of a task that runs on no actor.

        Args:
            job_id: The job that the task belongs to.
            parent_task_id: The task that has made the call.
            parent_task_counter: How many tasks and actors that one has made before.
        """
        actor = b"\xff" * (ActorID.SIZE - JobID.SIZE) + job_id.binary()
        return cls(_digest(cls.SIZE - ActorID.SIZE, parent_task_id, parent_task_counter) + actor)

    @classmethod
    def for_actor_creation_task(cls, actor_id: ActorID) -> TaskID:
        """Return the identifier of the task that makes an actor.

        Args:
            actor_id: The actor.
        """
        return cls(b"\x00" * (cls.SIZE - ActorID.SIZE) + actor_id.binary())

    @classmethod
    def for_actor_task(
        cls, job_id: JobID, parent_task_id: TaskID, parent_task_counter: int, actor_id: ActorID
    ) -> TaskID:
        """Return the identifier of a call of an actor.

        Args:
            job_id: The job that the call belongs to.
            parent_task_id: The task that has made the call.
            parent_task_counter: How many tasks and actors that one has made before.
            actor_id: The actor that is called.
        """
        unique = _digest(cls.SIZE - ActorID.SIZE, job_id, parent_task_id, parent_task_counter)
        return cls(unique + actor_id.binary())

    def actor_id(self) -> ActorID:
        """Return the identifier of the actor that the task runs on; a nil one for a plain task."""
        return ActorID(self._bytes[-ActorID.SIZE :])

    def job_id(self) -> JobID:
        """Return the identifier of the job that the task belongs to."""
        return JobID(self._bytes[-JobID.SIZE :])


def bytes_of_hex(name: str, hex_id: object) -> bytes:
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


def actor_id_of(ref: ObjectRef[object]) -> ActorID:
    """Return the actor that a reference made by `create_actor` stands for."""
    return ActorID(ref.binary()[-ActorID.SIZE :])
