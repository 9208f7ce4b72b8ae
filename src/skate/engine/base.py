"""The contract between the façade and whatever runs the work.

The façade (`skate._facade`) validates what the user wrote and calls exactly one method here; the
libraries call only the façade. Three implementations: `engine.inline` (this process and thread),
`engine.local` (processes and shared memory), `engine.ray` (a Ray cluster).

Promises that hold for every method, on every engine:

* Thread-safe, and usable from inside tasks and actors, where the same façade finds the worker's
  own engine.
* Values are passed by serialisation: the callee never sees later changes of the caller.
* A method that takes references keeps them alive until its work is done; a returned reference
  is owned by the caller, and the object lives until no reference, pending call or containing
  object mentions it.
* Errors of user code are never raised at submission: they are the value of the reference.
* When a worker dies, the work it ran is retried as the options say, or its references hold
  `WorkerCrashedError` / `ActorDiedError` within a second. Nothing waits for ever on the dead.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

# Also for pickles of earlier versions, which name some of them here.
from skate.engine.specs import (
    ActorMeta,
    ActorOptions,
    CallOptions,
    ClassSpec,
    Context,
    FunctionSpec,
    MethodMeta,  # noqa: F401
    TaskOptions,
)

if TYPE_CHECKING:
    import asyncio

    from skate._core.labels import Selector
    from skate._core.refs import ObjectRef, ObjectRefGenerator

    # What a call returns at once, by its num_returns: 1, "streaming", n, 0.
    Returned: TypeAlias = "ObjectRef[Any] | ObjectRefGenerator[Any] | list[ObjectRef[Any]] | None"

T = TypeVar("T")
W = TypeVar("W", bound="ObjectRef[Any] | ObjectRefGenerator[Any]")


class AwaitNotes(Protocol):
    """Knows what event loops of this process wait for."""

    def add(self, future: asyncio.Future[Any], ref: ObjectRef[object]) -> None:
        """Note that a future waits for a reference; called on its event loop."""

    def discard(self, future: asyncio.Future[Any]) -> None:
        """Note that it is done."""


class Engine(ABC):
    """Runs tasks and actors and keeps their values. See the module docstring for the promises."""

    name: str
    has_workers: bool = True  # whether calls run in other processes than their caller's
    session_name: str = ""  # of the session that ids belong to; "": they are valid everywhere

    @property
    def awaits(self) -> AwaitNotes | None:
        """Who is told what event loops wait for; None: nobody wonders."""
        return None

    # -- objects -------------------------------------------------------------------------------

    @abstractmethod
    def put(self, value: T) -> ObjectRef[T]:
        """Store a value. Raises ObjectStoreFullError or OutOfDiskError; stores nothing then."""

    @abstractmethod
    def get(
        self, refs: Sequence[ObjectRef[T]], timeout: float | None, copy: bool = False
    ) -> list[T]:
        """Return the values, in order; block until all are there.

        Raises the first error among the values, as an instance of the user's own exception
        type too; GetTimeoutError after `timeout` seconds (0: do not wait). Arrays are read-only
        views on shared memory, writable copies with `copy`. Inside a task it gives the task's
        CPUs back while it waits.
        """

    def get_own(self, ref: ObjectRef[T]) -> T:
        """Return the value, as `get`, whose arrays can be written to and are seen by nobody else:
        a copy, or memory that is copied when and where it is written to."""
        return self.get((ref,), None, copy=True)[0]

    @abstractmethod
    def wait(
        self, refs: Sequence[ObjectRef[T]], num_returns: int, timeout: float | None
    ) -> tuple[list[ObjectRef[T]], list[ObjectRef[T]]]:
        """Return (ready, not ready), both in the order given; at most `num_returns` ready ones.

        Errors count as ready. The caller has checked types, duplicates and `num_returns`.
        """

    def wait_mixed(
        self, waitables: Sequence[W], num_returns: int, timeout: float | None
    ) -> tuple[list[W], list[W]]:
        """Wait as `wait`, with generators among the references: one is ready when its next item
        is."""
        from skate._core.refs import ObjectRefGenerator

        ready: set[W] = set()
        changed = threading.Condition()

        def marker(waitable: W) -> Callable[[], None]:
            def mark() -> None:
                with changed:
                    ready.add(waitable)
                    changed.notify()

            return mark

        for waitable in waitables:
            if isinstance(waitable, ObjectRefGenerator):
                ref, index = waitable._generator_ref, waitable._index
                self.add_stream_callback(ref, index, marker(waitable))
            else:
                self.add_done_callback(waitable, marker(waitable))
        with changed:
            changed.wait_for(lambda: len(ready) >= num_returns, timeout)
            chosen = [waitable for waitable in waitables if waitable in ready][:num_returns]
        taken = set(chosen)
        return chosen, [waitable for waitable in waitables if waitable not in taken]

    @abstractmethod
    def add_done_callback(self, ref: ObjectRef[object], callback: Callable[[], None]) -> None:
        """Call once when the object is ready, now if it is. On any thread; must not block."""

    @abstractmethod
    def adopt(self, id: int) -> ObjectRef[object]:
        """Return this process's reference for an id that arrived inside a value."""

    @abstractmethod
    def pin(self, ref: ObjectRef[object]) -> None:
        """Keep the object until shutdown: its reference was pickled by someone else's pickler."""

    def reduce(self, ref: ObjectRef[object]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Tell someone else's pickler how to pickle a reference. Nobody can tell how long such
        bytes live, so the object is kept."""
        from skate._core.refs import _adopt_in

        self.pin(ref)
        return _adopt_in, (self.session_name, ref._id)

    # -- tasks ---------------------------------------------------------------------------------

    @abstractmethod
    def submit(
        self,
        function: FunctionSpec,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Returned:
        """Run a function; returns at once.

        One reference for num_returns=1 and "dynamic", a list for n > 1, None for 0, an
        ObjectRefGenerator for "streaming". A top-level reference among the arguments is replaced
        by its value before the function runs (an error there becomes this task's error); nested
        ones stay references. Raises TypeError for what cannot be serialised, with its path.
        """

    @abstractmethod
    def cancel(self, ref: ObjectRef[object], force: bool, recursive: bool) -> None:
        """Cancel the task or actor call behind `ref`; get() then raises TaskCancelledError.

        Not started: it never runs. Running: KeyboardInterrupt in a task, asyncio cancellation in
        an async method; `force` kills the worker (not allowed for actors). Finished: no effect.
        """

    @abstractmethod
    def stream_next(
        self, generator: ObjectRef[None], index: int, timeout: float | None
    ) -> ObjectRef[Any] | None:
        """Wait for item `index` of a streaming task; return it, or None when there are no more."""

    @abstractmethod
    def stream_ready(self, generator: ObjectRef[None], index: int) -> bool:
        """Return whether `stream_next` would not block."""

    @abstractmethod
    def stream_finished(self, generator: ObjectRef[None], index: int) -> bool:
        """Return whether the task has ended and has no item `index`."""

    @abstractmethod
    def stream_close(self, generator: ObjectRef[None], index: int) -> None:
        """Stop the task and free the items: the consumer wants nothing from `index` on."""

    @abstractmethod
    def stream_abandoned(self, generator: ObjectRef[None], index: int) -> None:
        """Do as `stream_close`, but from a destructor: no locks, no I/O."""

    @abstractmethod
    def add_stream_callback(
        self, generator: ObjectRef[None], index: int, callback: Callable[[], None]
    ) -> None:
        """Call once when `stream_next` for this index would not block."""

    # -- actors --------------------------------------------------------------------------------

    @abstractmethod
    def create_actor(
        self,
        cls: ClassSpec,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: ActorOptions,
    ) -> tuple[ObjectRef[None], ActorMeta]:
        """Start an actor; returns at once with the reference that stands for it.

        The reference is ready (with None) when the constructor is done; it holds the
        constructor's error otherwise. The actor lives until the last copy of it goes, also those
        inside handles elsewhere. Raises ValueError for a taken name, except with
        `get_if_exists`, which returns the existing actor.
        """

    @abstractmethod
    def call_actor(
        self,
        actor: ObjectRef[None],
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: CallOptions,
    ) -> Returned:
        """Call a method; returns like `submit`.

        Calls from one caller start in the order they were made (unless the actor runs several at
        a time); a call waits for its arguments without holding up other callers.
        """

    @abstractmethod
    def kill(self, actor: ObjectRef[None], no_restart: bool) -> None:
        """End the actor now. Calls under way fail with ActorDiedError; restarts if allowed."""

    @abstractmethod
    def get_actor(self, name: str, namespace: str | None) -> tuple[ObjectRef[None], ActorMeta]:
        """Find the live actor of that name. Raise ValueError, naming those that exist."""

    @abstractmethod
    def list_named_actors(self, all_namespaces: bool) -> list[tuple[str, str]]:
        """List (namespace, name) of the live named actors."""

    @abstractmethod
    def exit_actor(self) -> None:
        """End the actor that asks. This call and those under way fail with ActorDiedError."""

    def warm_up(self, modules: Sequence[str] | None) -> None:  # noqa: B027  # most need not
        """Have processes to come begin with these modules, where that can be, or with None what
        this process uses by now: work is to come that needs them."""

    # -- resources and surroundings ------------------------------------------------------------

    @abstractmethod
    def cluster_resources(self) -> dict[str, float]:
        """Return what there is in total."""

    def add_resources(self, amounts: Mapping[str, float]) -> None:
        """Let there be so much more from now on. NotImplementedError where others rule over it."""
        raise NotImplementedError(
            f"the {self.name} engine cannot be given more resources: {dict(amounts)}; add nodes "
            "to its cluster instead"
        )

    def set_resource(self, name: str, capacity: float) -> None:
        """Let there be so much of a resource from now on; what is in use is taken away when it
        comes back. NotImplementedError where others rule over it."""
        raise NotImplementedError(
            f"the {self.name} engine cannot be told that there is {name}={capacity}: add nodes to "
            "its cluster, or take them away"
        )

    @abstractmethod
    def available_resources(self) -> dict[str, float]:
        """Return what is not in use now; names with nothing left are absent. Less than nothing is
        left where something was taken away that is in use."""

    @abstractmethod
    def nodes(self) -> list[dict[str, Any]]:
        """Return one dictionary per machine, with Ray's keys."""

    @property
    def address(self) -> str:
        """What `init(address)` takes in another process to find the same kind of engine."""
        return self.name

    @abstractmethod
    def context(self) -> Context:
        """Tell where the calling code runs."""

    @abstractmethod
    def state(self, kind: str) -> list[dict[str, Any]]:
        """Return a row for each of the "actors", "tasks", "objects", "workers" or "runtime_envs",
        with Ray's keys; also of what has ended lately, but objects."""

    def has_begun(self, ref: ObjectRef[object]) -> bool:
        """Return whether the task that makes the value has begun, or ended; also if nobody
        knows."""
        id = ref.task_id().hex()
        states = [str(row["state"]) for row in self.state("tasks") if row["task_id"] == id]
        return not states or any(not state.startswith("PENDING") for state in states)

    def printed(self, since: int) -> list[dict[str, Any]]:
        """Return what was printed lately, after the piece of that number: for each piece its
        number, process, actor, task, stream and text."""
        return []

    def locations(
        self, refs: Sequence[ObjectRef[object]], timeout_ms: int
    ) -> dict[ObjectRef[object], dict[str, object]]:
        """Tell where the values are, with Ray's keys; a cluster may take `timeout_ms` to find
        out."""
        rows = {row["object_id"]: row for row in self.state("objects")}
        ready, _ = self.wait(refs, len(refs), 0) if refs else ([], [])
        here, found = self.context().node_id, set(ready)
        return {
            ref: {
                "node_ids": [here] if ref in found else [],
                "object_size": rows.get(ref.hex(), {}).get("object_size") or None,
                "did_spill": bool(rows.get(ref.hex(), {}).get("spilled")),
            }
            for ref in refs
        }

    @abstractmethod
    def timeline(self) -> list[dict[str, object]]:
        """Tell what ran where and when, as Chrome trace events."""

    @abstractmethod
    def profile(self, name: str, extra: Mapping[str, object]) -> AbstractContextManager[None]:
        """Put the time of a block on the timeline, under a name and with further plain values."""

    # -- placement groups ----------------------------------------------------------------------

    @abstractmethod
    def create_placement_group(
        self,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: Sequence[Selector],
    ) -> ObjectRef[None]:
        """Reserve bundles of resources together. The reference stands for the group and is ready
        (with None) when all bundles are reserved. A group lives until it is removed, or
        until the actor that made it is killed or crashes. `detached` ones outlive that, and
        their driver where the engine does. (On Ray, actors do not matter.) `selectors` say by
        its labels on which machine each bundle may be; empty for any."""

    @abstractmethod
    def remove_placement_group(self, group: ObjectRef[None]) -> None:
        """Give the reservation back; what runs in it is ended."""

    @abstractmethod
    def get_placement_group(self, name: str) -> tuple[ObjectRef[None], list[dict[str, float]]]:
        """Return the group of that name and its bundles. Raise ValueError if there is none."""

    @abstractmethod
    def placement_group_table(self) -> dict[str, dict[str, object]]:
        """Return id -> Ray's description of each group."""

    # -- life ----------------------------------------------------------------------------------

    @abstractmethod
    def shutdown(self) -> None:
        """End everything; afterwards no process, file or segment is left. Can be called twice."""


class CallTracer(Protocol):
    """Makes the calls of the façade by an engine, each of them traced."""

    def submit(
        self,
        engine: Engine,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Returned:
        """Start a task, as `Engine.submit` does."""

    def create_actor(
        self,
        engine: Engine,
        spec: ClassSpec,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: ActorOptions,
    ) -> tuple[ObjectRef[None], ActorMeta]:
        """Start an actor, as `Engine.create_actor` does."""

    def call_actor(
        self,
        engine: Engine,
        class_name: str,
        ref: ObjectRef[None],
        name: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: CallOptions,
    ) -> Returned:
        """Call a method, as `Engine.call_actor` does; `class_name` is the qualified one."""
