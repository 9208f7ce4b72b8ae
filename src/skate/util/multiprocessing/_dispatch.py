"""Who works on what: chunks wait, idle workers take them, outcomes go back to their owners.

    apply, map, imap ──► submit(chunk) ──► waiting ──► an idle worker ──► finished ──► owner

A chunk whose worker answers at once, as on the inline engine, goes the whole way in the thread
that submitted it. Otherwise one thread per pool, started by the first chunk that takes longer,
receives the outcomes and gives the workers their next chunk; callbacks of the user run there,
where they may block, and never on a thread of the engine.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import skate
from skate.util._initializer import Initialized


class Chunk:
    """Calls that go to a worker together, and who wants to know their outcome."""

    def __init__(
        self, function: Callable[..., object], calls: list[Any], owner: Callable[[Outcomes], None]
    ) -> None:
        self.function = function
        self.calls = calls  # [(args, kwargs)]
        self.owner = owner


Outcomes = list[tuple[bool, Any]]  # (succeeded, value or exception), one for each call


class PoolWorker:
    """The actor behind one process of a pool."""

    def __init__(self, initializer: Callable[..., object] | None, initargs: Any) -> None:
        self._initialized = Initialized(initializer, initargs) if initializer else None

    def ping(self) -> None:
        """Answer when the initializer is done."""

    def run(self, function: Callable[..., Any], calls: list[Any]) -> Outcomes:
        if self._initialized is not None:
            self._initialized.lend_to(function)
        return [_outcome(function, args, kwargs) for args, kwargs in calls]


def _outcome(function: Callable[..., object], args: Any, kwargs: Any) -> tuple[bool, object]:
    from skate._core.errors import task_error

    try:
        return True, function(*args, **kwargs)
    except Exception as error:
        return False, task_error(error, getattr(function, "__name__", type(function).__name__))


class _Worker:
    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.chunks = 0


class Dispatcher:
    """Keeps `size` workers busy, replacing those that die or have done `max_chunks` chunks."""

    def __init__(
        self, new_actor: Callable[[], object], size: int, max_chunks: int | None = None
    ) -> None:
        self._new_actor = new_actor
        self._max_chunks = max_chunks
        self._lock = threading.RLock()
        self._idle = [_Worker(new_actor()) for _ in range(size)]
        self._busy: dict[_Worker, Chunk] = {}
        self._waiting: deque[Chunk] = deque()
        self._finished: queue.SimpleQueue[tuple[_Worker, Any] | None] = queue.SimpleQueue()
        self._receiver: threading.Thread | None = None
        self._receiving = False
        self._closed = False
        self._ended = threading.Event()
        self._process = os.getpid()
        try:
            skate.get([worker.actor.ping.remote() for worker in self._idle])
        except BaseException:
            self.terminate()
            raise

    def check_open(self) -> None:
        if self._closed:
            raise ValueError("Pool not running: it is closed; make a new one")
        if self._process != os.getpid():
            raise RuntimeError(
                f"the pool belongs to process {self._process}, which forked this one, and its "
                "workers answer there: make a pool in this process"
            )

    # -- from submission to outcome ------------------------------------------------------------

    def submit(self, chunk: Chunk) -> None:
        with self._lock:
            self.check_open()
            self._waiting.append(chunk)
            answered = self._dispatch()
        if answered:
            self._receive_answered()

    def _dispatch(self) -> bool:
        """Give waiting chunks to idle workers; whether some were answered at once."""
        answered = False
        while self._waiting and self._idle:
            # Who has rested longest, so that all have their part in many short chunks.
            worker, chunk = self._idle.pop(0), self._waiting.popleft()
            self._busy[worker] = chunk
            answered |= self._start(worker, chunk)
        return answered

    def _start(self, worker: _Worker, chunk: Chunk) -> bool:
        worker.chunks += 1
        try:
            ref = worker.actor.run.remote(chunk.function, chunk.calls)
        except Exception as error:  # the function or its arguments cannot be sent
            self._finished.put((worker, error))
            return True
        future = ref.future()
        at_once = bool(future.done())
        if not at_once:
            self._start_receiver()
        future.add_done_callback(lambda done: self._finished.put((worker, done)))
        return at_once

    def _start_receiver(self) -> None:
        if self._receiver is None:
            name = "skate-pool"
            self._receiver = threading.Thread(target=self._receive, name=name, daemon=True)
            self._receiver.start()

    def _receive(self) -> None:
        while (item := self._finished.get()) is not None:
            self._handle(*item)

    def _receive_answered(self) -> None:
        """Handle in this thread what has finished already, unless another thread does."""
        with self._lock:
            if self._receiver is not None or self._receiving:
                return
            self._receiving = True
        while (item := self._next_answered()) is not None:
            self._handle(*item)

    def _next_answered(self) -> tuple[_Worker, object] | None:
        # Under the lock, as `_start` is: nothing can be added between the look and the flag.
        with self._lock:
            try:
                return self._finished.get_nowait()
            except queue.Empty:
                self._receiving = False
                return None

    def _handle(self, worker: _Worker, answer: object) -> None:
        with self._lock:
            chunk = self._busy.get(worker)
            if chunk is None:
                return  # terminated in the meantime
            outcomes, alive = _read(answer, chunk)
            if not alive and not skate.is_initialized():
                self.terminate()  # the engine has ended, and every worker with it
                return
            del self._busy[worker]
            self._renew(worker, alive)
            self._dispatch()
        _tell(chunk, outcomes)
        self._end_if_done()

    def _renew(self, worker: _Worker, alive: bool) -> None:
        """Make the worker idle again, or a new one in its place."""
        if not alive or worker.chunks == self._max_chunks:
            skate.kill(worker.actor)
            worker = _Worker(self._new_actor())
        self._idle.append(worker)

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more chunks; the workers end when the last one is done."""
        with self._lock:
            self._closed = True
        self._end_if_done()

    def terminate(self) -> None:
        """End the workers now; chunks that are not done fail."""
        with self._lock:
            self._closed = True
            lost = [*self._busy.values(), *self._waiting]
            workers = [*self._idle, *self._busy]
            self._idle, self._busy = [], {}
            self._waiting.clear()
        _kill(workers)
        error = skate.exceptions.ActorDiedError("the pool was terminated before this was done")
        for chunk in lost:
            _tell(chunk, [(False, error)] * len(chunk.calls))
        self._end()

    def join(self) -> None:
        """Wait until the workers have ended."""
        if not self._closed:
            raise ValueError("the pool is still running: call close() or terminate() first")
        self._ended.wait()
        if self._receiver is not None and self._receiver is not threading.current_thread():
            self._receiver.join()

    def _end_if_done(self) -> None:
        with self._lock:
            if not self._closed or self._busy or self._waiting:
                return
            workers, self._idle = self._idle, []
        _kill(workers)
        self._end()

    def _end(self) -> None:
        self._finished.put(None)
        self._ended.set()


def _read(answer: Any, chunk: Chunk) -> tuple[Outcomes, bool]:
    """Return the outcomes of a chunk, and whether its worker can go on."""
    error = answer if isinstance(answer, BaseException) else answer.exception()
    if error is not None:
        alive = not isinstance(error, skate.exceptions.RayActorError)
        return [(False, error)] * len(chunk.calls), alive
    return [(ok, value if ok else _original(value)) for ok, value in answer.result()], True


def _original(error: Any) -> BaseException:
    """Return the user's own exception; where it happened is shown as its cause."""
    original: BaseException = error.cause
    original.__cause__ = error
    return original


def _tell(chunk: Chunk, outcomes: Outcomes) -> None:
    try:
        chunk.owner(outcomes)
    except Exception:
        import logging

        logging.getLogger(__name__).exception("a callback given to the pool failed")


def _kill(workers: list[_Worker]) -> None:
    for worker in workers:
        with suppress(skate.exceptions.ActorHandleNotFoundError):  # it has ended with its session
            skate.kill(worker.actor)
