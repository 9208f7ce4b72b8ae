"""References to values that may not exist yet.

A process holds at most one `ObjectRef` per object: whoever meets the same id again gets the same
Python object. Equality and hashing are therefore identity, which is what makes `wait` over many
references and references as dictionary keys cheap; and the process's hold on an object is simply
the life of that one Python object.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

    from skate._core.ids import JobID, TaskID
    from skate.engine.base import Engine

T_co = TypeVar("T_co", covariant=True)

_ID_BYTES = 28
_INDEX = 0xFFFF  # the last bits of an id number the values of one task
_NIL = (1 << 8 * _ID_BYTES) - 1

# Of Ray: 0 shows where a program pickles references itself.
_OTHER_PICKLERS = "RAY_allow_out_of_band_object_ref_serialization"

_new = object.__new__
_NOT_GIVEN: Any = object()


class Home(Protocol):
    """The engine session a reference belongs to, as far as the reference is concerned.

    The session watches its references weakly to know when they are gone. (A destructor here would
    run before the weak references die, and could let another thread find the dying reference.)
    """

    @property
    def engine(self) -> Engine: ...


class ObjectRef(Generic[T_co]):
    """Refer to a value that some task, actor call or `put` has produced or will produce.

    Pass it to other tasks, keep it in any structure, `skate.get(ref)` or `await ref` its value.
    References are made by skate; `ObjectRef(ref.binary())` is the one that has these bytes.

    Args:
        id: The bytes of a reference of this session.
        home: The session that the reference belongs to; given by engines only.
        entry: The engine's own record of the value; given by engines only.

    Example:
        >>> ref = skate.put([1, 2])
        >>> skate.get(ref)
        [1, 2]
        >>> skate.ObjectRef(ref.binary()) is ref
        True
    """

    __slots__ = ("__weakref__", "_entry", "_home", "_id")
    _entry: Any
    _home: Home
    _id: int

    # Not in __init__: whoever gives the bytes of a reference gets the one that is there.
    def __new__(
        cls, id: int | bytes, home: Home = _NOT_GIVEN, entry: object = None
    ) -> ObjectRef[T_co]:
        if home is _NOT_GIVEN:
            return cls.from_binary(id)
        ref: ObjectRef[T_co] = _new(cls)
        ref._id = id  # type: ignore[assignment]
        ref._home = home
        ref._entry = entry  # the engine's own record; nobody else looks inside
        return ref

    def __repr__(self) -> str:
        return f"ObjectRef({self.hex()})"

    def __reduce__(self) -> tuple[object, ...]:
        # Reached only outside skate's own serialiser, which records the references it meets.
        if os.environ.get(_OTHER_PICKLERS) == "0":
            raise _pickled_elsewhere(self)
        return self._home.engine.reduce(self)

    def __copy__(self) -> ObjectRef[T_co]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ObjectRef[T_co]:
        return self

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "an ObjectRef cannot be iterated; get its value first with skate.get(ref), "
            "or ask the task for several references with num_returns=n"
        )

    def __await__(self) -> Generator[Any, None, T_co]:
        return self.as_future().__await__()

    def future(self) -> concurrent.futures.Future[T_co]:
        """Return a `concurrent.futures.Future` of the value.

        Returns:
            A future that is done when the value is there; an error of the task is its exception.

        Example:
            >>> skate.put(1).future().result()
            1
        """
        from skate._core.futures import concurrent_future

        return concurrent_future(self)

    def as_future(self, _internal: bool = False) -> asyncio.Future[T_co]:
        """Return an asyncio future of the value, on the running loop; `await ref` does the same.

        Args:
            _internal: Without effect: Ray's own.

        Example:
            >>> async def value():
            ...     return await skate.put(1).as_future()
            >>> import asyncio
            >>> asyncio.run(value())
            1
        """
        from skate._core.futures import asyncio_future

        return asyncio_future(self)

    def _on_completed(self, py_callback: Callable[[Any], None]) -> None:
        """Call the function once, with the value or the error, when it is there."""
        future = self.future()
        future.add_done_callback(lambda done: py_callback(done.exception() or done.result()))

    def binary(self) -> bytes:
        """Return the bytes that identify the value in this session."""
        return self._id.to_bytes(_ID_BYTES, "big")

    def hex(self) -> str:
        """Return the bytes that identify the value, as hexadecimal digits."""
        return self.binary().hex()

    def is_nil(self) -> bool:
        """Return whether it stands for no object at all."""
        return self._id == _NIL

    @staticmethod
    def size() -> int:
        """Return how many bytes `binary()` has."""
        return _ID_BYTES

    def task_id(self) -> TaskID:
        """Return the task that produces the value; for a value that was put, an id of its own."""
        from skate._core.ids import TaskID

        return TaskID((self._id & ~_INDEX).to_bytes(TaskID.size(), "big"))

    def job_id(self) -> JobID:
        """Return the job that the value belongs to."""
        from skate._core.ids import JobID

        return JobID.from_hex(self._home.engine.context().job_id)

    def call_site(self) -> str:
        """Return where the reference was made; that is not recorded, hence empty."""
        return ""

    def owner_address(self) -> bytes:
        """Return no address: objects belong to the session, not to a process that has one."""
        return b""

    def tensor_transport(self) -> str:
        """Return how tensors travel: "object_store", the way of all values."""
        return "object_store"

    @classmethod
    def nil(cls) -> ObjectRef[Any]:
        """Return the reference that stands for no object."""
        return _NO_OBJECT

    @classmethod
    def from_binary(cls, id_bytes: object) -> ObjectRef[Any]:
        """Return the reference that has these bytes.

        Args:
            id_bytes: What its `binary()` has returned.

        Raises:
            TypeError: If these are no bytes.
            ValueError: If there are too few or too many.
        """
        if not isinstance(id_bytes, (bytes, bytearray, memoryview)):
            kind = type(id_bytes).__name__
            raise TypeError(f"an ObjectRef takes {_ID_BYTES} bytes; got {kind}: {id_bytes!r}")
        if len(id_bytes) != _ID_BYTES:
            raise ValueError(f"an object id has {_ID_BYTES} bytes; got {len(id_bytes)}")
        id = int.from_bytes(id_bytes, "big")
        return _of_no_object.get(id) or _adopt(id)

    @classmethod
    def from_hex(cls, hex_id: str) -> ObjectRef[Any]:
        """Return the reference that `hex()` writes this way.

        Args:
            hex_id: What its `hex()` has returned.

        Raises:
            ValueError: If it is not hexadecimal, or too short or long.
        """
        from skate._core.ids import bytes_of_hex

        return cls.from_binary(bytes_of_hex("ObjectRef.from_hex()", hex_id))

    @classmethod
    def from_random(cls) -> ObjectRef[Any]:
        """Return a reference of its own that stands for no object."""
        return _refer_to_nothing(int.from_bytes(os.urandom(_ID_BYTES), "big"))

    def redis_shard_hash(self) -> int:
        """Return a number that spreads references evenly over shards."""
        return int.from_bytes(self.binary()[-8:], "big")


class _Nowhere:
    """The home of references that stand for no object."""

    @property
    def engine(self) -> Engine:
        raise ValueError("this reference stands for no object: there is nothing to get")


def _refer_to_nothing(id: int) -> ObjectRef[Any]:
    ref: ObjectRef[Any] = ObjectRef(id, _Nowhere())
    _of_no_object[id] = ref
    return ref


# Their bytes give the same reference again, as those of all others do.
_of_no_object: WeakValueDictionary[int, ObjectRef[Any]] = WeakValueDictionary()
_NO_OBJECT = _refer_to_nothing(_NIL)


def _adopt(id: int) -> ObjectRef[Any]:
    from skate.engine import current_engine

    return current_engine().adopt(id)


def _adopt_in(session_name: str, id: int) -> ObjectRef[Any]:
    """Return the reference that was pickled in the session of that name, if this is it.

    Ids begin anew in every session, so elsewhere the same id is of another object, or of none.
    """
    from skate.engine import installed_engine
    from skate.exceptions import ObjectLostError

    engine = installed_engine()
    if engine is not None and engine.session_name == session_name:
        return engine.adopt(id)
    error = ObjectLostError(f"{id:0{2 * _ID_BYTES}x}")
    here = f"this is session {engine.session_name}" if engine else "there is no session here"
    error.reason = (
        f"the reference was pickled in session {session_name}, and {here}; a reference means "
        "nothing outside of its session: store the value instead"
    )
    raise error


class ObjectRefGenerator(Generic[T_co]):
    """Iterate over the references that a streaming task yields, each as soon as it is there.

    Use `for` or `async for`; an exception in the task appears as the last reference. Calls of
    generators, and those with `num_returns="streaming"`, return one.

    Args:
        generator_ref: The reference that stands for the task.
        worker: Without effect, and Ray's: the reference knows its session.

    Example:
        >>> @skate.remote
        ... def count(n: int):
        ...     yield from range(n)
        >>> [skate.get(ref) for ref in count.remote(3)]
        [0, 1, 2]
    """

    def __init__(self, generator_ref: ObjectRef[None], worker: object = None) -> None:
        self._generator_ref: ObjectRef[None] = generator_ref
        self._index = 0
        self._engine: Engine = generator_ref._home.engine
        self._closed = False
        self._watched: tuple[int, Any] | None = None  # the engine's, for the item of an index

    def __iter__(self) -> ObjectRefGenerator[T_co]:
        return self

    def __next__(self) -> ObjectRef[T_co]:
        return self._next_sync(None)

    def _next_sync(self, timeout_s: float | None = None) -> ObjectRef[T_co]:
        """Return the next reference; after `timeout_s` without one, one that `is_nil()`."""
        from skate.exceptions import GetTimeoutError

        if self._closed:
            raise StopIteration
        try:
            ref = self._engine.stream_next(self._generator_ref, self._index, timeout_s)
        except GetTimeoutError:
            return ObjectRef.nil()
        if ref is None:
            raise StopIteration
        self._index += 1
        return ref

    def send(self, value: None) -> ObjectRef[T_co]:
        """Return the next reference, as `next` does; nothing can be sent into the generator.

        Args:
            value: None.

        Raises:
            TypeError: If it is not None.
            StopIteration: If there are no more.
        """
        if value is not None:
            raise TypeError(f"send() takes None here, as the task runs elsewhere; got {value!r}")
        return next(self)

    def throw(self, value: BaseException) -> ObjectRef[T_co]:
        """Close the generator and raise an exception here.

        Args:
            value: The exception.
        """
        self.close()
        raise value

    async def asend(self, value: None) -> ObjectRef[T_co]:
        """Return the next reference, as `anext` does; nothing can be sent into the generator.

        Args:
            value: None.

        Raises:
            TypeError: If it is not None.
            StopAsyncIteration: If there are no more.
        """
        if value is not None:
            raise TypeError(f"asend() takes None here, as the task runs elsewhere; got {value!r}")
        return await self.__anext__()

    async def athrow(self, value: BaseException) -> ObjectRef[T_co]:
        """Close the generator and raise an exception here, for async code.

        Args:
            value: The exception.
        """
        return self.throw(value)

    async def aclose(self) -> None:
        """Take no more items, as `close` does, for async code."""
        self.close()

    def __aiter__(self) -> AsyncIterator[ObjectRef[T_co]]:
        return self

    async def __anext__(self) -> ObjectRef[T_co]:
        from skate._core.futures import stream_item_ready

        if not self._closed:
            await stream_item_ready(self._engine, self._generator_ref, self._index)
        try:
            return self._next_sync(None)
        except StopIteration:
            raise StopAsyncIteration from None

    def completed(self) -> ObjectRef[None]:
        """Return a reference that is ready when the task has ended.

        Its value is None, also after an exception in the task, which is the last item; when the
        task was cancelled, or its worker or actor died, it is that error.
        """
        return self._generator_ref

    def next_ready(self) -> bool:
        """Return whether `next()` would return an item at once; False when there are no more."""
        if self._closed or not self._engine.stream_ready(self._generator_ref, self._index):
            return False
        return not self.is_finished()

    def is_finished(self) -> bool:
        """Return whether no item will come: the task ended and all were taken, or it is closed."""
        return self._closed or self._engine.stream_finished(self._generator_ref, self._index)

    def close(self) -> None:
        """Take no more items; the task is told to stop."""
        if not self._closed:
            self._closed = True
            self._engine.stream_close(self._generator_ref, self._index)

    def __del__(self) -> None:
        if not self._closed:
            self._closed = True
            self._engine.stream_abandoned(self._generator_ref, self._index)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an ObjectRefGenerator belongs to the process that made the call and cannot be sent "
            "elsewhere; send the references that it yields instead"
        )

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._generator_ref.hex()})"


_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "matmul": "@", "truediv": "/", "floordiv": "//",
    "mod": "%", "pow": "**", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_ORDERS = ("lt", "le", "gt", "ge")  # each is the other way round of another one


_ONLY_REFERS = "an 'ObjectRef' only refers to a value: get that first, with skate.get(ref)"


def _needs_the_value(symbol: str) -> Callable[[object, object], NoReturn]:
    def refuse(ref: object, other: object) -> NoReturn:
        raise TypeError(f"{symbol} takes values, and {_ONLY_REFERS}")

    return refuse


def _no_attribute(ref: object, name: str) -> NoReturn:
    # Without the object, as Python would add a suggestion of its own to ours.
    text = f"'ObjectRef' object has no attribute {name!r}: {_ONLY_REFERS}"
    raise AttributeError(text, name=name, obj=None)


def _no_item(ref: object, key: object) -> NoReturn:
    raise TypeError(
        f"[{key!r}] is for values, and {_ONLY_REFERS}; with num_returns=n a task gives several "
        "references"
    )


# Added here and not in the class, so that type checkers go on to refuse them.
for _name, _symbol in _SYMBOLS.items():
    setattr(ObjectRef, f"__{_name}__", _needs_the_value(_symbol))
    if _name not in _ORDERS:
        setattr(ObjectRef, f"__r{_name}__", _needs_the_value(_symbol))
setattr(ObjectRef, "__getattr__", _no_attribute)  # noqa: B010
setattr(ObjectRef, "__getitem__", _no_item)  # noqa: B010


def _pickled_elsewhere(ref: ObjectRef[Any]) -> Exception:
    from skate.exceptions import OufOfBandObjectRefSerializationException

    return OufOfBandObjectRefSerializationException(
        f"{ref!r}, or the handle of this actor, was given to a pickler of the program's own, and "
        f"{_OTHER_PICKLERS} is 0: nobody "
        "could tell when its object is not needed any more. Pass it as an argument or a result, "
        "or inside one; or unset the variable, and the object is kept until the session ends"
    )


class DynamicObjectRefGenerator(Generic[T_co]):
    """Iterate over the references that a `num_returns="dynamic"` task has made, once it has ended.

    Args:
        refs: All of them.

    Example:
        >>> @skate.remote(num_returns="dynamic")
        ... def parts(n: int):
        ...     yield from range(n)
        >>> [skate.get(ref) for ref in skate.get(parts.remote(3))]
        [0, 1, 2]
    """

    def __init__(self, refs: list[ObjectRef[T_co]]) -> None:
        self._refs: list[ObjectRef[T_co]] = refs

    def __iter__(self) -> Iterator[ObjectRef[T_co]]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)
