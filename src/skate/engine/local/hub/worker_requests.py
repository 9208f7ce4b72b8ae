"""What workers ask of the hub: all of `requests`, and what concerns the asking worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from skate import exceptions
from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.hub import errors
from skate.engine.local.hub.values import NONE
from skate.engine.local.objects import FAILED, INLINE

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.actor_names import ActorNames
    from skate.engine.local.hub.counts import Counts
    from skate.engine.local.hub.dispatch import WorkerOutbox
    from skate.engine.local.hub.placement import PlacementGroups
    from skate.engine.local.hub.ports import Ports
    from skate.engine.local.hub.requests import Requests
    from skate.engine.local.hub.streaming import Streaming
    from skate.engine.local.hub.streams import ItemStream
    from skate.engine.local.hub.submissions import Submissions
    from skate.engine.local.hub.workers import WorkerProcess

Lent = TypeVar("Lent")

_LATER = object()  # the answer will be sent when there is one


class WorkerRequests:
    """Answers workers. Those in `_of_worker` are given the worker, and the id of the answer."""

    def __init__(
        self,
        ports: Ports,
        counts: Counts,
        outbox: WorkerOutbox,
        streaming: Streaming,
        submissions: Submissions,
        names: ActorNames,
        placement: PlacementGroups,
        requests: Requests,
    ) -> None:
        self._ports = ports
        self._counts = counts
        self._outbox = outbox
        self._streaming = streaming
        self._submissions = submissions
        self._names = names
        self._placement = placement
        self._answers = requests.answers
        self._of_worker: dict[str, Callable[..., Any]] = {
            "create_group": self._create_group,
            "create_named_actor": self._create_named_actor,
            "find_group": self._find_group,
            "get_actor": self._get_actor,
            "make_room": self._make_room,
            "pin": self._pin,
            "stream_close": self._stream_close,
            "stream_finished": self._stream_finished,
            "stream_next": self._stream_next,
            "stream_ready": self._stream_ready,
            "stream_wait": self._stream_wait,
            "sync": self._sync,
        }

    def on_request(
        self, worker: WorkerProcess, answer: int, method: str, arguments: Packed
    ) -> None:
        """Answer a worker, now or later."""
        args = serialization.loads(arguments)
        try:
            if method in self._of_worker:
                value = self._of_worker[method](worker, answer, *args)
            else:
                value = self._answers[method](*args)
        except Exception as error:
            self._answer(worker, answer, FAILED, errors.packed(error))
            return
        if value is not _LATER:
            self._answer(worker, answer, INLINE, serialization.dumps(value).packed())

    def _answer(self, worker: WorkerProcess, answer: int, kind: int, data: Packed) -> None:
        worker.answered = answer
        self._outbox.send(worker, m.TellValue(answer, kind, data))

    # -- objects -------------------------------------------------------------------------------

    def _sync(self, worker: WorkerProcess, answer: int) -> None:
        """Answer after all that was subscribed to and is ready."""

    def _pin(self, worker: WorkerProcess, answer: int, id: int) -> None:
        self._counts.add((id,))

    def _make_room(self, worker: WorkerProcess, answer: int, size: int) -> object:
        def spill() -> None:
            freed = self._ports.spilling.free_memory(size)
            with self._ports.lock:
                self._answer(worker, answer, INLINE, serialization.dumps(freed).packed())

        self._ports.reactor.after.append(spill)  # without the lock
        return _LATER

    def on_return(self, worker: WorkerProcess, id: int) -> None:
        """Let go of what was lent to the worker, which holds it by now."""
        worker.loans.remove(id)
        self._counts.drop((id,))

    def _lend(self, worker: WorkerProcess, id: int, value: Lent) -> tuple[int, Lent]:
        """Return an id that is kept for the worker until it says that it holds it."""
        worker.loans.append(id)
        self._counts.add((id,))
        return id, value

    # -- actors and groups ---------------------------------------------------------------------

    def _create_named_actor(
        self, worker: WorkerProcess, answer: int, *fields: Any
    ) -> tuple[int, Packed] | None:
        options = worker.options[m.SubmitActor(*fields).options_key]
        actor = self._names.claim(options)
        if actor is not None:
            return self._lend(worker, actor.id, actor.meta)
        self._submissions.on_actor(worker, *fields)
        return None

    def _get_actor(
        self, worker: WorkerProcess, answer: int, name: str, namespace: str | None
    ) -> tuple[int, Packed]:
        actor = self._names.find(name, namespace)
        return self._lend(worker, actor.id, actor.meta)

    def _create_group(self, worker: WorkerProcess, answer: int, id: int, *rest: Any) -> None:
        self._counts.hold(worker, (id,))
        self._placement.create(id, *rest, creator=worker)

    def _find_group(
        self, worker: WorkerProcess, answer: int, name: str
    ) -> tuple[int, list[dict[str, float]]]:
        return self._lend(worker, *self._placement.find(name))

    # -- streams -------------------------------------------------------------------------------

    def _stream(self, id: int) -> ItemStream:
        stream = self._counts.entry(id).stream
        assert stream is not None
        return stream

    def _stream_next(
        self, worker: WorkerProcess, answer: int, id: int, index: int, timeout: float | None
    ) -> object:
        entry, stream = self._counts.entry(id), self._stream(id)
        done = False

        def ready() -> None:
            nonlocal done
            if not done:
                done = True
                item = self._streaming.take(entry, index)
                if item is not None:
                    worker.loans.append(item)  # the stream's own hold becomes the loan
                self._answer(worker, answer, INLINE, serialization.dumps(item).packed())

        def late() -> None:
            nonlocal done
            if not done:
                done = True
                stream.forget(ready)
                error = exceptions.GetTimeoutError(f"no item {index} after {timeout} s")
                self._answer(worker, answer, FAILED, errors.packed(error))

        stream.when_ready(index, ready)
        if timeout is not None and not done:
            self._ports.call_later(timeout, late)
        return _LATER

    def _stream_wait(self, worker: WorkerProcess, answer: int, id: int, index: int) -> object:
        self._stream(id).when_ready(index, lambda: self._answer(worker, answer, INLINE, NONE))
        return _LATER

    def _stream_ready(self, worker: WorkerProcess, answer: int, id: int, index: int) -> bool:
        return self._stream(id).ready(index)

    def _stream_finished(self, worker: WorkerProcess, answer: int, id: int, index: int) -> bool:
        return self._stream(id).ended(index)

    def _stream_close(self, worker: WorkerProcess, answer: int, id: int) -> None:
        self._streaming.close(self._counts.entry(id))
