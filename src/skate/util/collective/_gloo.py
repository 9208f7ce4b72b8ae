"""A group over gloo, on loopback. Imported when a group is made, for it needs torch.

Each group is a process group of its own, beside whatever the program does with the default group
of `torch.distributed`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np

import skate
from skate._core.optional_imports import try_import
from skate.util._surroundings import get_node_ip_address
from skate.util.collective._meeting import open_meeting
from skate.util.collective.types import ReduceOp

torch = try_import("torch", extra="torch")
dist = try_import("torch.distributed", extra="torch")

_ATTEMPTS = 5
_DIGEST_BYTES = 16
_NOTE_BYTES = 512  # with the digest: room for what a rank says about its tensors
_Store: Any = dist.Store
Tensor = Any

_OPS = {
    ReduceOp.SUM: dist.ReduceOp.SUM,
    ReduceOp.PRODUCT: dist.ReduceOp.PRODUCT,
    ReduceOp.MIN: dist.ReduceOp.MIN,
    ReduceOp.MAX: dist.ReduceOp.MAX,
}


class _MeetingStore(_Store):  # type: ignore[misc]
    """gloo's exchange of addresses, by way of the meeting."""

    def __init__(self, meeting: Any, prefix: str, timeout: float) -> None:
        super().__init__()
        self._meeting = meeting
        self._prefix = prefix
        self._timeout = timeout
        self._known: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        skate.get(self._meeting.set.remote(self._prefix + key, bytes(value)))

    def get(self, key: str) -> bytes:
        if key not in self._known:
            self.wait([key])
        return self._known[key]

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        seconds = self._timeout if timeout is None else timeout.total_seconds()
        names = [self._prefix + key for key in keys]
        values = skate.get(self._meeting.get.remote(names, seconds))
        self._known.update(zip(keys, values, strict=True))

    def close(self) -> None:
        """Let go of the meeting, so that it can end: everyone is connected."""
        self._meeting = None


class GlooGroup:
    """This process's membership in a group. Tensors and arrays are changed in place."""

    def __init__(
        self, name: str, world_size: int, rank: int, timeout: float, declared: bool = False
    ) -> None:
        self.name = name
        self.declared = declared  # from outside, by create_collective_group
        self.world_size = world_size
        self.rank = rank
        self._group = self._connected(timeout)

    def waits_because(self, method: str) -> str | None:
        if method.startswith("_"):
            return None
        return (
            f"rank {self.rank} of {self.world_size} in the collective group {self.name!r} waits "
            f"in {method} for the other ranks"
        )

    def _connected(self, timeout: float) -> Any:
        options = dist.ProcessGroupGloo._Options()
        device = dist.ProcessGroupGloo.create_device(
            hostname=get_node_ip_address(), lazy_init=False
        )
        options._devices = [device]
        options._timeout = timedelta(seconds=timeout)
        if self.world_size == 1:
            return dist.ProcessGroupGloo(dist.HashStore(), 0, 1, options)
        meeting, gathering = self._met(timeout)
        store = _MeetingStore(meeting, f"{gathering}/", timeout)
        group = dist.ProcessGroupGloo(store, self.rank, self.world_size, options)
        group.barrier().wait()
        store.close()
        return group

    def _met(self, timeout: float) -> tuple[Any, int]:
        """Return the meeting at which all members are, and which gathering there it is."""
        attempts = _ATTEMPTS
        while True:
            meeting = open_meeting(self.name)
            joined = meeting.join.remote(self.rank, self.world_size, timeout)
            try:
                return meeting, skate.get(joined)
            except skate.exceptions.ActorDiedError:
                # Found at its end, when the members of an earlier group had just left it.
                attempts -= 1
                if not attempts:
                    raise

    def allreduce(self, tensor: object, op: ReduceOp) -> None:
        options = dist.AllreduceOptions()
        options.reduceOp = _OPS[op]
        with _in_place(tensor) as dense:
            self._agree("allreduce", dense)
            self._group.allreduce(dense, options).wait()

    def reduce(self, tensor: object, dst_rank: int, op: ReduceOp) -> None:
        options = dist.ReduceOptions()
        options.rootRank = dst_rank
        options.reduceOp = _OPS[op]
        self._agree("reduce", [_to_read(tensor)])
        if self.rank == dst_rank:
            with _in_place(tensor) as dense:
                self._group.reduce(dense, options).wait()
        else:
            # gloo uses the memory of the others for intermediate sums.
            self._group.reduce([_to_read(tensor).clone()], options).wait()

    def broadcast(self, tensor: object, src_rank: int) -> None:
        options = dist.BroadcastOptions()
        options.rootRank = src_rank
        with _in_place(tensor, read_only=self.rank == src_rank) as dense:
            self._agree("broadcast", dense)
            self._group.broadcast(dense, options).wait()

    def allgather(self, tensor_list: list[Any], tensor: object) -> None:
        own = _to_read(tensor)
        with _in_place(*tensor_list) as dense:
            self._agree("allgather", [own])
            self._group.allgather([dense], [own]).wait()

    def reducescatter(self, tensor: object, tensor_list: list[Any], op: ReduceOp) -> None:
        options = dist.ReduceScatterOptions()
        options.reduceOp = _OPS[op]
        inputs = [_to_read(part) for part in tensor_list]
        with _in_place(tensor) as dense:
            self._agree("reducescatter", inputs)
            self._group.reduce_scatter(dense, [inputs], options).wait()

    def send(self, tensor: object, dst_rank: int) -> None:
        self._group.send([_to_read(tensor)], dst_rank, 0).wait()

    def recv(self, tensor: object, src_rank: int) -> None:
        with _in_place(tensor) as dense:
            self._group.recv(dense, src_rank, 0).wait()

    def barrier(self) -> None:
        self._group.barrier().wait()

    def close(self) -> None:
        self._group = None

    def _agree(self, operation: str, tensors: list[Tensor]) -> None:
        """Raise in every rank if the ranks have called different things.

        gloo does not look: with tensors of other sizes some ranks get wrong numbers, and the
        others wait for bytes that nobody sends.
        """
        if self.world_size == 1:
            return
        own = _note(operation, tensors)
        notes = [torch.empty_like(own) for _ in range(self.world_size)]
        self._group.allgather([notes], [own]).wait()
        said = [bytes(note.numpy()) for note in notes]
        if len({text[:_DIGEST_BYTES] for text in said}) == 1:
            return
        calls = "; ".join(
            f"rank {rank}: {text[_DIGEST_BYTES:].rstrip(bytes(1)).decode(errors='replace')}"
            for rank, text in enumerate(said)
        )
        raise ValueError(
            f"the ranks of the collective group {self.name!r} must call the same operation with "
            f"tensors of the same shape and dtype; got {calls}"
        )


def _note(operation: str, tensors: list[Tensor]) -> Tensor:
    """Return what a rank calls: a digest of what has to be equal, then the call in words.

    Sizes have to be equal, and shapes need not: gloo adds a column to a row of its length.
    """
    sizes = [(str(tensor.dtype), tensor.numel()) for tensor in tensors]
    digest = hashlib.blake2b(repr((operation, sizes)).encode(), digest_size=_DIGEST_BYTES).digest()
    words = ", ".join(
        f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
        for tensor in tensors
    )
    note = (digest + f"{operation}({words})".encode())[:_NOTE_BYTES]
    return torch.frombuffer(bytearray(note.ljust(_NOTE_BYTES, bytes(1))), dtype=torch.uint8)


@contextmanager
def _in_place(*values: object, read_only: bool = False) -> Iterator[list[Tensor]]:
    """Yield the values as dense tensors; what is written there ends up in the values."""
    if read_only:
        yield [_to_read(value) for value in values]
        return
    views = [_view(value) for value in values]
    dense = [view.contiguous() for view in views]
    yield dense
    for view, result in zip(views, dense, strict=True):
        if result is not view:
            view.copy_(result)


def _to_read(value: object) -> Tensor:
    return _view(value).contiguous()


def _view(value: object) -> Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected a torch.Tensor or a numpy.ndarray; got {type(value).__name__}")
    return torch.from_numpy(value if value.flags.writeable else _writable(value))


class _Memory:
    """The memory of an array that is marked read-only, to write into."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._keep = array
        place, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (place, False)}


def _writable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a writable view. Arrays from `get`, and arguments, are marked read-only, but their
    memory is this process's own (copy-on-write); a collective may fill them, as in Ray."""
    base: Any = array
    while base is not None:
        if isinstance(base, np.memmap):
            raise ValueError("the array is a file that is mapped read-only: use array.copy()")
        base = getattr(base, "base", None)
    return np.asarray(_Memory(array))
