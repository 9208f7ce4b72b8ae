"""What a pool gives back before the work is done."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import TimeoutError
from typing import Any

from skate._core.argument_checks import seconds
from skate.util.multiprocessing._dispatch import Outcomes

Callback = Callable[[Any], object]
Submit = Callable[[list[Any], Callable[[Outcomes], None]], None]


class AsyncResult:
    """Wait for the result of one call, or for the list of results of many.

    Args:
        chunks: How many parts the results come in.
        single: Whether there is one call only, whose result is no list.
        callback: Is called with the result, when it is there.
        error_callback: Is called with the first exception, if there is one.
    """

    def __init__(
        self, chunks: int, single: bool, callback: Callback | None, error_callback: Callback | None
    ) -> None:
        self._single = single
        self._callback = callback
        self._error_callback = error_callback
        self._parts: list[Outcomes] = [[] for _ in range(chunks)]
        self._missing = chunks
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._value: Any = None
        if not chunks:
            self._finish()

    def _deliver(self, index: int, outcomes: Outcomes) -> None:
        with self._lock:
            self._parts[index] = outcomes
            self._missing -= 1
            last = self._missing == 0
        if last:
            self._finish()

    def _finish(self) -> None:
        outcomes = [outcome for part in self._parts for outcome in part]
        self._parts = []
        self._error = next((value for ok, value in outcomes if not ok), None)
        if self._error is None:
            values = [value for _, value in outcomes]
            self._value = values[0] if self._single else values
        try:
            self._call_back()
        finally:
            self._ready.set()

    def _call_back(self) -> None:
        if self._error is None and self._callback is not None:
            self._callback(self._value)
        elif self._error is not None and self._error_callback is not None:
            self._error_callback(self._error)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is there.

        Args:
            timeout: Seconds to wait at the most; None waits for ever.
        """
        self._ready.wait(_patience(timeout))

    def get(self, timeout: float | None = None) -> Any:
        """Return the result, or raise the exception of the first call that failed.

        Args:
            timeout: Seconds to wait at the most; None waits for ever.

        Raises:
            TimeoutError: That of `multiprocessing`, if `timeout` seconds have passed.
        """
        self.wait(timeout)
        if not self.ready():
            raise TimeoutError(f"no result within {timeout} s")
        if self._error is not None:
            raise self._error
        return self._value

    def ready(self) -> bool:
        """Return whether every call is done."""
        return self._ready.is_set()

    def successful(self) -> bool:
        """Return whether no call raised an exception.

        Raises:
            ValueError: If that is not known yet.
        """
        if not self.ready():
            raise ValueError(f"{self!r} is not ready; use wait() first")
        return self._error is None


class IMapIterator:
    """Iterate over results; a call that raised an exception raises it in its turn.

    In programs that import ray the exception is the result, as Ray has it.

    Args:
        submit: Submits a chunk.
        chunks: The calls, in chunks; they may be endless.
        window: How many chunks are submitted ahead of what has been taken out.
        ordered: Whether results come in the order of the calls.
    """

    def __init__(
        self, submit: Submit, chunks: Iterator[list[object]], window: int, ordered: bool
    ) -> None:
        self._submit = submit
        self._chunks = chunks
        self._window = window
        self._ordered = ordered
        self._exhausted = False
        self._submitted = 0
        self._taken = 0
        self._arrived: dict[int, Outcomes] = {}
        self._arrival = threading.Condition()
        self._ready: deque[tuple[bool, Any]] = deque()
        self._submit_ahead(window)

    def __iter__(self) -> IMapIterator:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> object:
        """Return the next result.

        Args:
            timeout: Seconds to wait at the most; None waits for ever.

        Raises:
            TimeoutError: That of `multiprocessing`, if `timeout` seconds have passed.
            StopIteration: If there are no more.
        """
        succeeded, value = self._next_outcome(timeout)
        if not succeeded:
            raise value
        return value

    def _next_outcome(self, timeout: float | None) -> tuple[bool, Any]:
        """Return whether the next call has succeeded, and what it has returned or raised."""
        if not self._ready:
            self._ready.extend(self._next_chunk(timeout))
            self._submit_ahead(self._window)
        return self._ready.popleft()

    def _next_chunk(self, timeout: float | None) -> Outcomes:
        if self._taken == self._submitted:
            raise StopIteration
        with self._arrival:
            if not self._arrival.wait_for(self._has_arrived, _patience(timeout)):
                raise TimeoutError(f"no result within {timeout} s")
            index = self._taken if self._ordered else next(iter(self._arrived))
            self._taken += 1
            return self._arrived.pop(index)

    def _has_arrived(self) -> bool:
        return self._taken in self._arrived if self._ordered else bool(self._arrived)

    def _submit_ahead(self, window: float) -> None:
        while not self._exhausted and self._submitted - self._taken < window:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._exhausted = True
            else:
                index, self._submitted = self._submitted, self._submitted + 1
                self._submit(chunk, partial(self._arrive, index))

    def _submit_all(self) -> None:
        """Submit what is left, since the pool closes: what has been promised is still done."""
        self._submit_ahead(float("inf"))

    def _arrive(self, index: int, outcomes: Outcomes) -> None:
        with self._arrival:
            self._arrived[index] = outcomes
            self._arrival.notify_all()


def _patience(timeout: object) -> float | None:
    """Return how long to wait; no time at all if it is negative, as in the standard library."""
    negative = isinstance(timeout, (int, float)) and timeout < 0
    return seconds("timeout", 0 if negative else timeout)
