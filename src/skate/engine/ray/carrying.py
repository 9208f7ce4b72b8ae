"""Values on their way through Ray: skate pickles them, Ray carries the bytes.

A `Carried` is what Ray's own pickler sees. It hands over the pickle, the buffers (which Ray lays
into shared memory, and out of which readers get views) and Ray's counterparts of the references
inside (which Ray then counts as contained in the value). Read back, it is the value itself.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skate._core.refs import ObjectRef
from skate._core.serialization import PLAIN, Serialized, dumps, is_plain, loads
from skate.engine import changing, install_engine, installed_engine

if TYPE_CHECKING:
    from skate.engine.ray.engine import RayEngine


class Carried:
    """A pickled value inside one of Ray's."""

    __slots__ = ("_serialized",)

    def __init__(self, serialized: Serialized) -> None:
        self._serialized = serialized

    @property
    def references(self) -> list[ObjectRef[Any]]:
        """Those inside the value."""
        return self._serialized.refs

    def __reduce__(self) -> tuple[object, ...]:
        content = self._serialized
        buffers = [pickle.PickleBuffer(buffer) for buffer in content.buffers]
        carriers = [carrier for ref in content.refs if (carrier := ref._entry.carrier())]
        return _arrived, (content.payload, buffers, carriers)


def carried(value: object, name: str) -> Any:
    """Return what to give to Ray for a value. Raise TypeError for what cannot be serialised."""
    return value if is_plain((value,)) or _is_simple(value) else Carried(dumps(value, name))


def _is_simple(value: object) -> bool:
    """Return whether it is a list or dictionary of plain values, or of such lists: Ray's pickler
    makes the same of those, in one step. None of them twice, as Ray would make two of it."""
    if not _is_container(value):
        return False
    kinds = set(map(type, _items(value))) - PLAIN
    if not kinds <= {list, dict}:
        return False
    inner = () if not kinds else [item for item in _items(value) if type(item) not in PLAIN]
    return len(set(map(id, inner))) == len(inner) and all(
        _is_container(item) and set(map(type, _items(item))) <= PLAIN for item in inner
    )


def _is_container(value: object) -> bool:
    return type(value) is list or (type(value) is dict and set(map(type, value)) <= {str})


def _items(value: object) -> Any:
    return value.values() if type(value) is dict else value


def arrived_reference(carrier: object) -> ObjectRef[Any]:
    """Return this process's reference for what some pickle contained."""
    return attached().references.of_carrier(carrier)


def attached() -> RayEngine:
    """Return the engine of this process. A worker of the cluster gets it when it first needs
    it."""
    engine: Any = installed_engine()
    if engine is None:
        from skate.engine.ray.engine import RayEngine

        with changing:
            engine = installed_engine() or RayEngine()
            install_engine(engine)
    found: RayEngine = engine
    return found


_reading = threading.local()


@contextmanager
def copying() -> Iterator[None]:
    """Make arrays that this thread reads inside the block writable copies."""
    _reading.copies = True
    try:
        yield
    finally:
        _reading.copies = False


def _arrived(payload: bytes, buffers: list[Any], carriers: list[Any]) -> Any:
    held = [arrived_reference(carrier) for carrier in carriers]
    copies = getattr(_reading, "copies", False)
    value = loads((payload, *buffers) if buffers else payload, copies)
    del held  # until here the pickle could ask for them by their ids
    return value
