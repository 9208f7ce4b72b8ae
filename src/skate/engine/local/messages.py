"""The vocabulary between the driver's hub and its workers: one named tuple per message.

On the wire (`wire.py`) a message is its number, which is its place in the table at the end, and
the tuple of its fields. Who receives one calls the handler of that number
with the fields, whose parameters are named as they are here (`tests/local/test_messages.py`).

`kind, data` is an object's value as in `objects.ObjectEntry`. Ids are ints. Messages on one
connection are handled in order, which is what reference counting rests on: a worker's `Hold`
always arrives before whatever lets the hub forget the object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from skate._core.serialization import Packed

Slot = int | str  # position or keyword of an argument
WorkerValue = tuple[int, Any, Sequence[int]]  # kind, data, ids of the references inside


class WorkSettings(TypedDict, total=False):
    """What a worker must know of its work beyond the defaults, as plain values."""

    name: str | None
    resources: dict[str, float]
    accelerators: Mapping[str, tuple[int | str, ...]]  # by resource: those that it may use
    runtime_env: Packed
    placement_group: Packed
    capture_child_tasks: bool
    concurrency_group: str | None
    streaming: bool
    dynamic: bool
    backpressure: int
    retry_exceptions: Packed  # a tuple of types
    # Of actors, for as long as they live; the first five are always there.
    max_concurrency: int
    concurrency_groups: dict[str, int]
    is_async: bool
    namespace: str | None
    meta: Packed
    restarted: bool


# -- hub to worker --------------------------------------------------------------------------------

TASK, CREATION, CALL = range(3)


class Work(NamedTuple):
    """Run a function, construct an actor, or call one of its methods. From actor to actor too."""

    operation: int  # TASK, CREATION or CALL
    id: int
    target: Any  # key of the function or class, or name of the method
    kind: int
    data: Any
    dependencies: Sequence[tuple[Slot, int, Any, int]] | None  # slot, kind, data, id
    num_returns: int
    settings: WorkSettings | None


class DefineFunction(NamedTuple):
    """Keep a function or class, for the work that names its key."""

    key: int
    kind: int
    data: Any
    name: str


class ForgetFunction(NamedTuple):
    """Forget a function that nobody can send work for any more."""

    key: int


class TellValue(NamedTuple):
    """An object that was subscribed to, or the answer to a request, is there."""

    id: int
    kind: int
    data: Any


class CancelWork(NamedTuple):
    """Do not begin this work, or interrupt it. From actor to actor too."""

    id: int


class StealWork(NamedTuple):
    """Give back half of what has not begun: another worker is idle."""


class RecycleSegment(NamedTuple):
    """Nobody needs a segment any more that this worker wrote."""

    name: str


class GrantCredit(NamedTuple):
    """How far the consumer of a stream is."""

    task_id: int
    taken: int  # items; -1: it wants no more


class PeerAddress(NamedTuple):
    """Where an actor can be called directly."""

    actor_id: int
    path: str  # name of its socket; "": not now
    concurrent: bool  # it keeps no order
    target: int  # its process number


class ListenToPeers(NamedTuple):
    """Make a socket for direct calls, and tell its name (`Listening`)."""


class ExitWorker(NamedTuple):
    """End when the current work is over."""


class AskWaits(NamedTuple):
    """Say what runs here, and what it waits for (`TellWaits`)."""


# -- worker to hub --------------------------------------------------------------------------------


class WorkResult(NamedTuple):
    """The one value of some work. From actor to actor too."""

    id: int
    kind: int
    data: Any
    contained: Sequence[int]
    micros: int


class WorkResults(NamedTuple):
    """The several values of some work, with consecutive ids. From actor to actor too."""

    id: int
    values: Sequence[WorkerValue]
    micros: int


class RetryWork(NamedTuple):
    """Some work has raised what its options allow to be retried; `kind, data` is the error."""

    id: int
    kind: int
    data: Packed
    micros: int


class SubmitTask(NamedTuple):
    """Run a function."""

    id: int
    key: int
    kind: int
    data: Any
    dependencies: Sequence[tuple[Slot, int]]
    nested: Sequence[int]
    options_key: int
    parent: int


class SubmitActor(NamedTuple):
    """Start an actor."""

    id: int
    key: int
    kind: int
    data: Any
    dependencies: Sequence[tuple[Slot, int]]
    nested: Sequence[int]
    options_key: int
    meta: Packed


class SubmitCall(NamedTuple):
    """Call a method of an actor."""

    id: int
    actor_id: int
    method: str
    kind: int
    data: Any
    dependencies: Sequence[tuple[Slot, int]]
    nested: Sequence[int]
    options_key: int
    parent: int


class LostCall(NamedTuple):
    """A call that was sent directly, to a process that is gone by now."""

    target: int  # process number of the actor
    call: tuple[Any, ...]  # the fields of a `SubmitCall`


class Subscribe(NamedTuple):
    """Tell these values, each as soon as it is there."""

    ids: Sequence[int]


class Blocked(NamedTuple):
    """A thread of this worker waits until so many of these are there."""

    number: int  # of the wait
    ids: Sequence[int]
    missing: int


class Unblocked(NamedTuple):
    """The wait of that number is over."""

    number: int


class Hold(NamedTuple):
    """This worker has a reference to these objects, or a view."""

    ids: Sequence[int]


class Release(NamedTuple):
    """This worker has none any more."""

    ids: Sequence[int]


class PutValue(NamedTuple):
    """Keep a value; this worker holds it."""

    id: int
    kind: int
    data: Any
    contained: Sequence[int]


class PutValueFor(NamedTuple):
    """The same for another process: the answer to a direct call, too large to go directly."""

    owner: int  # process number
    id: int
    kind: int
    data: Any
    contained: Sequence[int]


class PromiseValues(NamedTuple):
    """These will be put by this worker."""

    ids: Sequence[int]


class AskHub(NamedTuple):
    """Ask what `hub.requests` can answer; a `TellValue` of this id is the answer."""

    answer: int
    method: str
    arguments: Packed


class ExportFunction(NamedTuple):
    """Keep a function or class that this worker will submit work of."""

    key: int
    kind: int
    data: Any
    name: str
    nested: Sequence[int]


class UnexportFunction(NamedTuple):
    """This worker cannot submit work of it any more."""

    key: int


class DefineOptions(NamedTuple):
    """Keep options, for what is submitted with their key."""

    key: int  # -1: forget all
    packed: Packed | None


class GaveBack(NamedTuple):
    """Work that was sent here, has not begun and will not."""

    ids: list[int]


class StreamItem(NamedTuple):
    """An item of a stream."""

    task_id: int
    position: int
    id: int
    kind: int
    data: Any
    contained: Sequence[int]


class PrintText(NamedTuple):
    """Something was printed."""

    stream: int  # 1 or 2
    label: str
    text: str
    task_id: int  # 0: printed by no task


class RecordSpan(NamedTuple):
    """A span of time is over that the program has named."""

    name: str
    start: float  # seconds since the epoch
    micros: int
    extra: dict[str, Any]  # plain values


class ConnectTo(NamedTuple):
    """This worker wants to call an actor directly."""

    actor_id: int


class Listening(NamedTuple):
    """The answer to `ListenToPeers`."""

    path: str  # name of the socket; "": it could not be made


class ActorExiting(NamedTuple):
    """The actor ends itself."""

    wanted: bool  # by exit_actor(), not by a crash
    why: str
    call: int  # that has ended it; 0: none


class TellWaits(NamedTuple):
    """The answer to `AskWaits`. The id of a piece of work is 0 where it is not known."""

    running: Sequence[tuple[int, str, str, str]]  # id, name, where in the user's code, why
    waits: Sequence[tuple[int, Sequence[int]]]  # who waits, and for which objects
    calls: Sequence[tuple[int, int, str]]  # made directly: id, actor, method


class ReturnLoan(NamedTuple):
    """This worker holds by itself what the hub has kept for it."""

    id: int


# -- actor to actor -------------------------------------------------------------------------------


class Hello(NamedTuple):
    """The first message on a direct connection."""

    caller: int  # process number


# -- numbers --------------------------------------------------------------------------------------

MESSAGES: tuple[type[tuple[Any, ...]], ...] = (
    Work, WorkResult, WorkResults, Hello, DefineFunction, ForgetFunction, TellValue, CancelWork,
    StealWork, RecycleSegment, GrantCredit, PeerAddress, ListenToPeers, ExitWorker, RetryWork,
    SubmitTask, SubmitActor, SubmitCall, LostCall, Subscribe, Blocked, Unblocked, Hold, Release,
    PutValue, PutValueFor, PromiseValues, AskHub, ExportFunction, UnexportFunction,
    DefineOptions, GaveBack, StreamItem, PrintText, RecordSpan, ConnectTo, Listening,
    ActorExiting, ReturnLoan, AskWaits, TellWaits,
)  # fmt: skip

WORK, RESULT, RESULTS, HELLO = range(4)


def plain_text(text: str | None) -> str | None:
    """Return a text without a subclass (such as StrEnum), which messages could not carry."""
    return None if text is None else str.__str__(text)
