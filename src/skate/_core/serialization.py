"""Values to bytes and back.

Pickle protocol 5 with out-of-band buffers: what supports the buffer protocol (NumPy, Arrow, and
CPU torch tensors by a reducer here) is not copied into the pickle, so that an engine can lay the
buffers into shared memory with one memcpy, and give views on them to readers.

A serialised value in a message, "packed", is either plain `bytes` (a pickle without buffers) or a
tuple `(pickle, buffer, buffer, …)`.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import cloudpickle

from skate._core.errors import without_own_frames
from skate._core.refs import ObjectRef, _adopt
from skate._core.tensorflow_processes import is_v1, reduce_v1

Packed = bytes | tuple[Any, ...]

# Exact types that the C pickler handles alone: no class or function of the user's can hide inside.
PLAIN = frozenset({int, float, bool, str, bytes, type(None), complex})

_custom: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}

_importable: set[type] = set()

NO_ARGUMENTS: bytes = pickle.dumps(((), {}), 5)


class Serialized:
    """A pickled value, its buffers, and the references that occur inside."""

    __slots__ = ("buffers", "payload", "refs")

    def __init__(
        self, payload: bytes, buffers: Sequence[pickle.PickleBuffer], refs: list[ObjectRef[object]]
    ) -> None:
        self.payload: bytes = payload
        self.buffers: list[memoryview] | tuple[()] = (
            [buffer.raw() for buffer in buffers] if buffers else ()
        )
        self.refs: list[ObjectRef[Any]] = refs

    @property
    def size(self) -> int:
        if not self.buffers:
            return len(self.payload)
        return len(self.payload) + sum(buffer.nbytes for buffer in self.buffers)

    def packed(self) -> Packed:
        """Copy it as it travels inside a message: the caller may change its arrays afterwards."""
        if not self.buffers:
            return self.payload
        return (self.payload, *map(bytes, self.buffers))


def dumps(value: object, name: str = "value") -> Serialized:
    """Serialise; raise TypeError with the path of what cannot be, starting from `name`."""
    if type(value) in PLAIN:
        return Serialized(pickle.dumps(value, 5), (), [])
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(value)
    except Exception as error:
        raise _explained(value, name, error) from without_own_frames(error)
    return Serialized(file.getvalue(), pickler.buffers, pickler.refs)


def is_plain(values: Sequence[object]) -> bool:
    """Return whether any pickler handles all of them alike: no references are inside."""
    for value in values:
        if type(value) not in PLAIN:
            return False
    return True


def loads(packed: Packed, copy: bool = False) -> Any:
    """Return the value. Its arrays are views on the given buffers, or on writable copies of them.

    Buffers of a message, which are bytes, are copied to where vector instructions want them.
    """
    if isinstance(packed, bytes):
        return pickle.loads(packed)
    buffers: Any = map(_aligned, packed[1:]) if copy else aligned(packed)[1:]
    return pickle.loads(packed[0], buffers=buffers)


def aligned(packed: tuple[object, ...]) -> tuple[Any, ...]:
    """Return the value with buffers that vector instructions can read, copied if need be."""
    if type(packed[-1]) is not bytes:
        return packed
    return (packed[0], *(_aligned(buffer).toreadonly() for buffer in packed[1:]))


_ALIGNMENT_BYTES = 64  # of segments too; a cache line, and what AVX-512 loads at once


class _Block(bytearray):
    """Memory of one value that was read, and of nothing else."""

    __slots__ = ()
    skate_snapshot = True


def _aligned(data: Any) -> memoryview:
    """Return a writable copy that begins at a multiple of 64 bytes."""
    address_of, first_of = _ctypes()
    size = len(data) if type(data) is bytes else memoryview(data).nbytes
    block = _Block(size + _ALIGNMENT_BYTES)
    start = -address_of(first_of(block)) % _ALIGNMENT_BYTES
    view = memoryview(block)[start : start + size]
    view[:] = data
    return view


@functools.cache  # an import statement and two names cost as much as the copy of a small array
def _ctypes() -> tuple[Callable[[Any], int], Callable[[Any], Any]]:
    import ctypes

    return ctypes.addressof, ctypes.c_char.from_buffer


#: Set on memory that an engine has mapped: nobody writes to what the values in its store are.
SNAPSHOT = "skate_snapshot"


def is_snapshot(memory: object) -> bool:
    """Return whether the bytes will never change. That we cannot write to them is no proof: they
    may belong to a file, or to somebody else's array."""
    owner = memory.obj if isinstance(memory, memoryview) else memory
    return isinstance(owner, bytes) or getattr(owner, SNAPSHOT, False)


def register_serializer(
    cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """Serialise the instances of a class by functions of yours, in this process.

    Tasks and actors that are to send such instances back have to register the class as well.

    Args:
        cls: The class; its subclasses are not meant.
        serializer: Turns an instance into something that can be pickled.
        deserializer: Turns that into an instance again; it is sent along.

    Example:
        >>> class Handle:
        ...     def __init__(self, number):
        ...         self.number, self.connection = number, lambda: number
        >>> skate.util.register_serializer(
        ...     Handle, serializer=lambda handle: handle.number, deserializer=Handle
        ... )
        >>> skate.get(skate.put(Handle(3))).number
        3
        >>> skate.util.deregister_serializer(Handle)
    """
    _custom[cls] = (serializer, deserializer)


def deregister_serializer(cls: type) -> None:
    """Undo `register_serializer`; do nothing for a class that was not registered.

    Args:
        cls: The class.
    """
    _custom.pop(cls, None)


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        self.buffers: list[pickle.PickleBuffer] = []
        self.refs: list[ObjectRef[Any]] = []
        super().__init__(file, protocol=5, buffer_callback=self.buffers.append)
        self._tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        self._is_v1 = is_v1()

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is ObjectRef:
            self.refs.append(obj)
            return _adopt, (obj._id,)
        if kind in _custom:
            serializer, deserializer = _custom[kind]
            return _rebuild_custom, (deserializer, serializer(obj))
        if self._tensor is not None and kind is self._tensor:
            reduced = _reduce_tensor(obj)
            if reduced is not None:
                return reduced
        if self._is_v1:
            reduced = reduce_v1(obj)
            if reduced is not None:
                return reduced
        if kind is type:
            return self._reduce_class(obj)
        return super().reducer_override(obj)

    def _reduce_class(self, cls: type) -> Any:
        """Reduce a class. Whether it can be imported is looked up once for those of this package,
        of which messages are full."""
        if cls in _importable:
            return NotImplemented
        reduced = super().reducer_override(cls)
        if reduced is NotImplemented and cls.__module__.startswith("skate."):
            _importable.add(cls)
        return reduced


def _rebuild_custom(deserializer: Callable[[object], object], state: object) -> Any:
    return deserializer(state)


def _reduce_tensor(tensor: Any) -> Any:
    """Reduce a dense CPU tensor to one out-of-band buffer; None leaves it to torch."""
    import torch

    plain = (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.requires_grad
        and not tensor.is_nested
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.__dict__  # attributes that were given to it
        and tensor.numel() > 0
    )
    if not plain:
        return None
    dense = tensor if _is_dense(tensor) else tensor.contiguous()
    flat = torch.as_strided(dense, (dense.numel(),), (1,), dense.storage_offset())
    array: Any = flat.view(torch.uint8).numpy()
    buffer = pickle.PickleBuffer(array)
    return _rebuild_tensor, (buffer, dense.dtype, tuple(dense.shape), dense.stride())


def _is_dense(tensor: Any) -> bool:
    """Return whether the elements fill their stretch of memory exactly, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


_readonly_warning_silenced = False
_tensors_rebuilt = 0


def tensors_rebuilt() -> int:
    """Return how many tensors have been made on buffers so far: more if a value had some."""
    return _tensors_rebuilt


def _rebuild_tensor(buffer: Any, dtype: Any, shape: tuple[int, ...], stride: Any) -> Any:
    """Return a view on the buffer. Segments are mapped copy-on-write: writing to it is safe."""
    import ctypes

    import torch

    global _readonly_warning_silenced, _tensors_rebuilt
    _tensors_rebuilt += 1
    if not _readonly_warning_silenced:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.frombuffer(b"\0", dtype=torch.uint8)  # torch warns once, of a case we allow
        _readonly_warning_silenced = True
    if not isinstance(getattr(buffer, "obj", buffer), (bytearray, ctypes.Array)):
        # Not a mapping of our own: others read it too, inside a message or in Ray's store.
        buffer = bytearray(buffer)
    flat = torch.frombuffer(buffer, dtype=dtype)
    return torch.as_strided(flat, shape, stride)


def _explained(value: object, name: str, error: BaseException) -> TypeError:
    from skate._core.unpicklable import find_culprits

    culprits = find_culprits(value, name)
    where = "; ".join(f"{culprit.path}: {culprit.type_name}" for culprit in culprits)
    if isinstance(value, (FunctionType, type)):
        kind = "actor class" if isinstance(value, type) else "function"
        where = f"the {kind} {name}{where and f', because of {where}'}"
    return TypeError(
        f"Could not serialize {where or name}: {str(error).rstrip('. ') or type(error).__name__}. "
        "Create it inside the task or actor, or leave it out with __getstate__."
    )
