"""The interface of `multiprocessing.Pool`; the work is done by actors."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import skate
from skate._core.argument_checks import mapping, whole_number
from skate.util.multiprocessing._dispatch import Chunk, Dispatcher, Outcomes, PoolWorker
from skate.util.multiprocessing._results import AsyncResult, Callback, IMapIterator

_MOST_PROCESSES = 10_000
_CHUNKS_PER_PROCESS = 4  # of a map: enough to even out calls of unequal length
_AHEAD_PER_PROCESS = 2  # of an imap: the next chunk is there when one is done

Function = Callable[..., Any]
Call = tuple[tuple[Any, ...], dict[str, Any]]


class Pool:
    """Work through calls in processes; use it as `multiprocessing.Pool`.

    Args:
        processes: How many; by default as many as skate has CPUs.
        initializer: Runs first in each process; an exception there is raised here.
        initargs: The arguments of `initializer`.
        maxtasksperchild: After so many chunks a process is replaced by a new one, as is one that
            dies, whose calls fail with ActorDiedError; None never.
        context: None: skate starts its own processes. Anything else has no effect, with a warning.
        ray_address: The address for `skate.init`, if skate has not been initialised.
        ray_remote_args: Options of the actors that the processes are.

    Example:
        >>> from skate.util.multiprocessing import Pool
        >>> with Pool(2) as pool:
        ...     pool.map(abs, [-1, 2, -3])
        [1, 2, 3]
    """

    _lazily: type[IMapIterator] = IMapIterator  # what `imap` returns

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[object] | None = None,
        maxtasksperchild: int | None = None,
        context: object = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ) -> None:
        if context is not None:
            warnings.warn(
                f"context={context!r} has no effect: skate starts its own processes", stacklevel=2
            )
        _check_positive("processes", processes)
        if processes is not None and processes > _MOST_PROCESSES:
            raise ValueError(f"processes takes 1 to {_MOST_PROCESSES:,}; got {processes}")
        _check_positive("maxtasksperchild", maxtasksperchild)
        if ray_address is not None and not skate.is_initialized():
            skate.init(address=ray_address)
        self._processes = processes or max(1, int(skate.cluster_resources().get("CPU", 1)))
        actor_class: Any = skate.remote(PoolWorker)
        options = mapping("ray_remote_args", ray_remote_args)
        start = actor_class.options(**{"num_cpus": 0, **options}).remote
        new_actor = partial(start, initializer, tuple(initargs or ()))
        self._dispatcher = Dispatcher(new_actor, self._processes, maxtasksperchild)
        self._iterators: weakref.WeakSet[IMapIterator] = weakref.WeakSet()
        # No __del__, which would be called in the ruins of the interpreter, too.
        weakref.finalize(self, self._dispatcher.close).atexit = False

    # -- one call ------------------------------------------------------------------------------

    def apply(
        self,
        func: Function,
        args: Iterable[object] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function in one of the processes, and wait for its result.

        Args:
            func: The function.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            What it returns; what it raises is raised here.
        """
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Function,
        args: Iterable[object] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
        *,
        kwds: dict[str, Any] | None = None,
    ) -> AsyncResult:
        """Call a function in one of the processes, without waiting.

        Callbacks run on a thread of the pool, one after the other.

        Args:
            func: The function.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            callback: Is called with the result, when it is there.
            error_callback: Is called with the exception, if there is one.
            kwds: The standard library's name for `kwargs`.

        Returns:
            An AsyncResult, whose `get()` waits.

        Example:
            >>> from skate.util.multiprocessing import Pool
            >>> with Pool(1) as pool:
            ...     pool.apply_async(pow, (2, 5)).get()
            32
        """
        call = (tuple(args or ()), {**mapping("kwargs", kwargs), **mapping("kwds", kwds)})
        return self._run(func, [[call]], True, callback, error_callback)

    # -- many calls ----------------------------------------------------------------------------

    def map(
        self, func: Function, iterable: Iterable[object], chunksize: int | None = None
    ) -> list[Any]:
        """Return `[func(item) for item in iterable]`, computed in parallel.

        Args:
            func: The function.
            iterable: Its arguments.
            chunksize: How many items a process is given at a time; None chooses.

        Example:
            >>> from skate.util.multiprocessing import Pool
            >>> with Pool(2) as pool:
            ...     pool.map(len, ["a", "bc"])
            [1, 2]
        """
        results: list[Any] = self.map_async(func, iterable, chunksize).get()
        return results

    def map_async(
        self,
        func: Function,
        iterable: Iterable[object],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult:
        """Begin `map`, without waiting.

        Args:
            func: The function.
            iterable: Its arguments.
            chunksize: How many items a process is given at a time; None chooses.
            callback: Is called with the list of results, when it is there.
            error_callback: Is called with the first exception, if there is one.

        Returns:
            An AsyncResult, whose `get()` waits.
        """
        calls: list[Call] = [((item,), {}) for item in iterable]
        return self._run(func, self._chunks(calls, chunksize), False, callback, error_callback)

    def starmap(
        self, func: Function, iterable: Iterable[Iterable[object]], chunksize: int | None = None
    ) -> list[Any]:
        """Return `[func(*item) for item in iterable]`, computed in parallel.

        Args:
            func: The function.
            iterable: Its arguments, several in each item.
            chunksize: How many items a process is given at a time; None chooses.

        Example:
            >>> from skate.util.multiprocessing import Pool
            >>> with Pool(2) as pool:
            ...     pool.starmap(pow, [(2, 3), (3, 2)])
            [8, 9]
        """
        results: list[Any] = self.starmap_async(func, iterable, chunksize=chunksize).get()
        return results

    def starmap_async(
        self,
        func: Function,
        iterable: Iterable[Iterable[object]],
        callback: Callback | None = None,
        error_callback: Callback | None = None,
        *,
        chunksize: int | None = None,
    ) -> AsyncResult:
        """Begin `starmap`, without waiting.

        Args:
            func: The function.
            iterable: Its arguments, several in each item.
            callback: Is called with the list of results, when it is there.
            error_callback: Is called with the first exception, if there is one.
            chunksize: How many items a process is given at a time; None chooses.

        Returns:
            An AsyncResult, whose `get()` waits.
        """
        calls: list[Call] = [(tuple(item), {}) for item in iterable]
        return self._run(func, self._chunks(calls, chunksize), False, callback, error_callback)

    def imap(
        self, func: Function, iterable: Iterable[object], chunksize: int | None = 1
    ) -> IMapIterator:
        """Compute as `map` does, but lazily: inputs are taken as results are.

        Args:
            func: The function.
            iterable: Its arguments; they may be endless.
            chunksize: How many items a process is given at a time.

        Returns:
            An iterator over the results, in order.

        Example:
            >>> from skate.util.multiprocessing import Pool
            >>> with Pool(2) as pool:
            ...     list(pool.imap(abs, [-1, -2]))
            [1, 2]
        """
        return self._imap(func, iterable, chunksize, ordered=True)

    def imap_unordered(
        self, func: Function, iterable: Iterable[object], chunksize: int | None = 1
    ) -> IMapIterator:
        """Compute as `imap` does, with each result as soon as it is there.

        Args:
            func: The function.
            iterable: Its arguments; they may be endless.
            chunksize: How many items a process is given at a time.

        Returns:
            An iterator over the results, in no order.
        """
        return self._imap(func, iterable, chunksize, ordered=False)

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more work; the processes end when what there is is done."""
        for iterator in list(self._iterators):
            iterator._submit_all()
        self._dispatcher.close()

    def terminate(self) -> None:
        """End the processes now; what is not done fails."""
        self._dispatcher.terminate()

    def join(self) -> None:
        """Wait until the processes of a closed pool have ended."""
        self._dispatcher.join()

    def __enter__(self) -> Pool:
        self._dispatcher.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Pool cannot be sent to other processes; make one there")

    # -- chunks --------------------------------------------------------------------------------

    def _run(
        self,
        func: Function,
        chunks: list[list[Call]],
        single: bool,
        callback: Callback | None,
        error_callback: Callback | None,
    ) -> AsyncResult:
        _check_callable("func", func)
        _check_callable("callback", callback, optional=True)
        _check_callable("error_callback", error_callback, optional=True)
        self._dispatcher.check_open()
        result = AsyncResult(len(chunks), single, callback, error_callback)
        for index, calls in enumerate(chunks):
            self._dispatcher.submit(Chunk(func, calls, partial(result._deliver, index)))
        return result

    def _imap(
        self, func: Function, iterable: Iterable[object], chunksize: int | None, ordered: bool
    ) -> IMapIterator:
        _check_callable("func", func)
        self._dispatcher.check_open()

        def submit(calls: list[Any], owner: Callable[[Outcomes], None]) -> None:
            self._dispatcher.submit(Chunk(func, calls, owner))

        calls: Iterator[Call] = (((item,), {}) for item in iterable)
        window = self._processes * _AHEAD_PER_PROCESS
        iterator = self._lazily(
            submit, _chunked(calls, 1 if chunksize is None else chunksize), window, ordered
        )
        self._iterators.add(iterator)
        return iterator

    def _chunks(self, calls: list[Call], chunksize: int | None) -> list[list[Call]]:
        if chunksize is None:
            chunksize = max(1, -(-len(calls) // (self._processes * _CHUNKS_PER_PROCESS)))
        return list(_chunked(calls, chunksize))


def _chunked(calls: Iterable[object], size: int) -> Iterator[list[Any]]:
    _check_positive("chunksize", size)
    iterator = iter(calls)
    while chunk := list(islice(iterator, min(size, sys.maxsize))):
        yield chunk


def _check_positive(name: str, value: int | None) -> None:
    if value is not None:
        whole_number(name, value)


def _check_callable(name: str, value: object, optional: bool = False) -> None:
    if not callable(value) and not (optional and value is None):
        raise TypeError(f"{name} must be callable; got {value!r}")
