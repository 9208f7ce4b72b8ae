"""What skate uses of cloudpickle, which has no types of its own."""

import pickle
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import IO, Any, TypeAlias

_Bytes: TypeAlias = bytes | bytearray | memoryview | pickle.PickleBuffer
_OnBuffer: TypeAlias = Callable[[pickle.PickleBuffer], object] | None

cloudpickle: ModuleType

class Pickler(pickle.Pickler):
    def __init__(
        self, file: IO[bytes], protocol: int | None = None, buffer_callback: _OnBuffer = None
    ) -> None: ...

def dumps(
    obj: object, protocol: int | None = None, buffer_callback: _OnBuffer = None
) -> bytes: ...
def dump(
    obj: object,
    file: IO[bytes],
    protocol: int | None = None,
    buffer_callback: _OnBuffer = None,
) -> None: ...
def loads(data: _Bytes, /, *, buffers: Iterable[Any] | None = None) -> Any: ...
def load(file: IO[bytes], /, *, buffers: Iterable[Any] | None = None) -> Any: ...
def register_pickle_by_value(module: ModuleType) -> None: ...
def unregister_pickle_by_value(module: ModuleType) -> None: ...
