"""What can go wrong, as a tree. Every class is also reachable under Ray's name for it.

SkateError (RayError)
├── UserCodeException                        code of the user's failed
│   └── TaskError (RayTaskError)             it raised; also an instance of what it raised
├── ActorError (RayActorError)
│   ├── ActorDiedError                       the actor is gone for good
│   └── ActorUnavailableError                the actor is restarting; try again
├── WorkerCrashedError                       the process that ran a task died
├── TaskCancelledError
├── GetTimeoutError                          also a TimeoutError
├── TaskUnschedulableError                   this machine can never meet the request
├── ActorUnschedulableError
├── TaskPlacementGroupRemoved
├── ActorPlacementGroupRemoved
├── ActorAlreadyExistsError                  also a ValueError
├── ActorHandleNotFoundError                 also a ValueError
├── PendingCallsLimitExceeded                more queued calls than max_pending_calls
├── AsyncioActorExit
├── RuntimeEnvSetupError
├── UnserializableException                  an exception that could not travel, as text
├── UntrustedPickleError                     a pickle of others, and nobody allowed to read it
├── UnreadablePickleError                    a pickle that is damaged, or lacks its code
├── OutsideLinkError                         a link in a folder of others that leads out of it
├── ObjectStoreFullError
├── OutOfDiskError
├── OutOfMemoryError
├── NodeDiedError
├── ObjectLostError
│   ├── ObjectFetchTimedOutError
│   ├── ObjectFreedError
│   ├── ObjectReconstructionFailedError
│   ├── OwnerDiedError
│   └── StaleReferenceError                  of a session that has ended; also a ValueError
├── ObjectRefStreamEndOfStreamError
├── PlasmaObjectNotAvailable
├── OufOfBandObjectRefSerializationException  a reference was pickled by the program
└── SkateSystemError (RaySystemError)        a fault of skate itself
    ├── PlacementGroupExistsError            the name is taken; also a ValueError
    ├── GraphClosedError                     a compiled graph has ended; also a RuntimeError
    └── GraphFullError                       a compiled graph runs as often as it may
"""

# ruff: noqa: N818 - the names are Ray's

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

from skate._core.optional_imports import ray_is_skate

__all__ = [
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorError",
    "ActorHandleNotFoundError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "AsyncioActorExit",
    "GetTimeoutError",
    "GraphClosedError",
    "GraphFullError",
    "NodeDiedError",
    "ObjectFetchTimedOutError",
    "ObjectFreedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectRefStreamEndOfStreamError",
    "ObjectStoreFullError",
    "OufOfBandObjectRefSerializationException",
    "OutOfDiskError",
    "OutOfMemoryError",
    "OutsideLinkError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "PlacementGroupExistsError",
    "PlasmaObjectNotAvailable",
    "RayActorError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "RuntimeEnvSetupError",
    "SkateError",
    "SkateSystemError",
    "StaleReferenceError",
    "TaskCancelledError",
    "TaskError",
    "TaskPlacementGroupRemoved",
    "TaskUnschedulableError",
    "UnreadablePickleError",
    "UnserializableException",
    "UntrustedPickleError",
    "UserCodeException",
    "WorkerCrashedError",
]


class SkateError(Exception):
    """The root: `except SkateError` catches whatever skate itself raises."""

    def __reduce__(self) -> tuple[object, ...]:
        # Constructors differ from class to class; the state says it all.
        return _restore, (type(self), self.args, self.__dict__)

    def to_bytes(self) -> bytes:
        """Return the error as bytes, for `from_bytes`."""
        from skate._core.serialization import dumps

        return pickle.dumps(dumps(self, "error").packed())

    @staticmethod
    def from_bytes(b: bytes) -> SkateError:
        """Return the error that `to_bytes` has written.

        Args:
            b: The bytes; a pickle, so only from where you trust.
        """
        from skate._core.serialization import loads

        error: SkateError = loads(pickle.loads(b))
        return error

    @staticmethod
    def from_ray_exception(ray_exception: Any) -> SkateError:
        """Return the error inside one of Ray's exception messages, or its text if unreadable.

        Args:
            ray_exception: The message, with `serialized_exception` and
                `formatted_exception_string`.
        """
        try:
            return SkateError.from_bytes(ray_exception.serialized_exception)
        except Exception:
            return UnserializableException(str(ray_exception.formatted_exception_string))


def _restore(
    cls: type[SkateError], args: tuple[object, ...], state: dict[str, object]
) -> SkateError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class UserCodeException(SkateError):
    """Code of the user's failed, in a task or under a library such as skate.data."""


class TaskError(UserCodeException):
    """User code raised an exception in a task or an actor call.

    What `skate.get` raises is this and the user's own type at once: `except ValueError` catches a
    remote ValueError. `str()` shows the remote traceback. `argument_of` names the task that could
    not run because this one's value was an argument.

    Args:
        function_name: The function or method that raised.
        traceback_str: The remote traceback.
        cause: The original exception.
        proctitle: What the process called itself.
        pid: The process.
        ip: The address of its machine.
        actor_repr: The actor, if it was one, as its `repr` says.
        actor_id: The actor's id, as hexadecimal digits.

    Example:
        >>> @skate.remote
        ... def divide(a: int, b: int) -> float:
        ...     return a / b
        >>> try:
        ...     skate.get(divide.remote(1, 0))
        ... except ZeroDivisionError as error:
        ...     isinstance(error, skate.exceptions.TaskError), error.cause
        (True, ZeroDivisionError('division by zero'))
    """

    argument_of: str | None = None
    by_library: bool = False  # what failed is a task of skate's own libraries

    def __init__(
        self,
        function_name: str,
        traceback_str: str,
        cause: BaseException,
        proctitle: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
        actor_repr: str | None = None,
        actor_id: str | None = None,
    ) -> None:
        super().__init__(function_name, traceback_str, cause)
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.proctitle: str = proctitle or _title(function_name)
        self.pid: int = pid or os.getpid()
        self.ip: str = ip or "127.0.0.1"
        self.actor_repr = actor_repr
        self._actor_id = actor_id

    def __reduce__(self) -> tuple[object, ...]:
        from skate._core.errors import portable

        state = {**self.__dict__, "cause": portable(self.cause)}
        return _restore_task_error, (type(self), state)

    def as_instanceof_cause(self) -> TaskError:
        """Return this error as an instance of the cause's type too, or as it is."""
        from skate._core.errors import as_cause

        return as_cause(self)

    def make_dual_exception_instance(self) -> TaskError:
        """Return this error as an instance of the cause's type too.

        Raises:
            TypeError: If that cannot be done; `as_instanceof_cause` then returns the error itself.
        """
        from skate._core.errors import make_dual

        return make_dual(self)

    def __str__(self) -> str:
        actor = f", actor_id={self._actor_id}, repr={self.actor_repr}" if self.actor_repr else ""
        header = f"{self.proctitle}() (pid={self.pid}, ip={self.ip}{actor})"
        text = self.traceback_str.strip()
        start = "Traceback (most recent call last):\n"
        if self.argument_of:
            header = (
                f"{_title(self.argument_of)}() was not run: one of its arguments could not be "
                f"computed, because the task that makes it failed:\n{header}"
            )
        # The header stands in for the first line, which says nothing about where it happened.
        return f"{header}\n{text.removeprefix(start)}"


def _title(function_name: str) -> str:
    """Return how a task is called in texts."""
    return f"{library_name()}::{function_name}"


def library_name() -> str:
    """Return the name that the program imports this library by: "ray" if that means skate."""
    return "ray" if ray_is_skate() else "skate"


def _restore_task_error(cls: type[TaskError], state: dict[str, object]) -> TaskError:
    from skate._core.errors import unpack

    error = cls.__new__(cls)
    error.__dict__.update(state, cause=unpack(state["cause"]))
    error.args = (error.function_name, error.traceback_str, error.cause)
    return error


class ActorError(SkateError):
    """An actor failed before it could answer.

    Args:
        actor_id: The actor's id, as hexadecimal digits.
        error_msg: What to say instead of the usual message.
        actor_init_failed: Whether it was its constructor that failed.
        preempted: Whether its machine was taken away.
    """

    BASE_ERROR_MSG = "The actor failed before finishing this task."

    def __init__(
        self,
        actor_id: str | None = None,
        error_msg: str | None = None,
        actor_init_failed: bool = False,
        preempted: bool = False,
    ) -> None:
        self.actor_id = actor_id
        self.error_msg: str = error_msg or self.BASE_ERROR_MSG
        self._actor_init_failed = actor_init_failed
        self._preempted = preempted
        super().__init__(self.error_msg)

    @property
    def actor_init_failed(self) -> bool:
        """Whether the constructor raised."""
        return self._actor_init_failed

    @property
    def preempted(self) -> bool:
        """Whether the machine was taken away."""
        return self._preempted


class ActorDiedError(ActorError):
    """The actor is dead and does not come back.

    Args:
        cause: The constructor's TaskError, the WorkerCrashedError of its process, or text.
        actor_id: The actor's id, as hexadecimal digits.
        exit_type: How its process ended, in Ray's words: INTENDED_USER_EXIT (`exit_actor`),
            INTENDED_SYSTEM_EXIT (killed or not needed any more), USER_ERROR (its constructor
            raised) or SYSTEM_ERROR (it crashed).
    """

    BASE_ERROR_MSG = "The actor died before finishing this task."

    def __init__(
        self,
        cause: BaseException | str | None = None,
        actor_id: str | None = None,
        exit_type: str | None = None,
    ) -> None:
        self.cause = cause
        failed = isinstance(cause, TaskError)
        if isinstance(cause, TaskError):
            actor_id = actor_id or cause._actor_id
            exit_type = exit_type or "USER_ERROR"
            text = f"The actor is dead after an error raised in its creation task:\n{cause}"
        else:
            crashed = exit_type == "SYSTEM_ERROR"
            text = self.BASE_ERROR_MSG.replace("died", "died unexpectedly", crashed)
            text = text if cause is None else f"{text} {cause}"
            text += f" (exit type: {exit_type})" if exit_type else ""
        self.exit_type = exit_type
        super().__init__(actor_id, text, actor_init_failed=failed)

    @staticmethod
    def from_task_error(task_error: TaskError) -> ActorDiedError:
        """Return the death that an error in the constructor means.

        Args:
            task_error: The constructor's error.
        """
        return ActorDiedError(task_error)


class ActorUnavailableError(ActorError):
    """The actor cannot be reached now but may come back; the call may or may not have run.

    Args:
        error_message: Why.
        actor_id: The actor's id, as bytes or hexadecimal digits.
    """

    def __init__(self, error_message: str, actor_id: bytes | str | None = None) -> None:
        hex_id = actor_id.hex() if isinstance(actor_id, bytes) else actor_id
        super().__init__(
            hex_id,
            f"The actor {hex_id} is unavailable: {error_message}. "
            "The call may or may not have been executed.",
        )


class WorkerCrashedError(SkateError):
    """The process that ran the task died.

    Args:
        message: What to say instead of how the process ended.
        pid: The process.
        exitcode: How it ended, as `multiprocessing` counts: a negative one is a signal's.
    """

    def __init__(
        self, message: str | None = None, *, pid: int | None = None, exitcode: int | None = None
    ) -> None:
        self.pid = pid
        self.exitcode = exitcode
        self.signal: str | None = _signal_name(exitcode)
        super().__init__(message or self._describe())

    def _describe(self) -> str:
        who = "The worker" if self.pid is None else f"The worker (pid={self.pid})"
        if self.signal:
            how = f"was killed by {self.signal}"
        elif self.exitcode is not None:
            how = f"exited with code {self.exitcode}"
        else:
            how = "died"
        return f"{who} {how} while it ran this task."


def _signal_name(exitcode: int | None) -> str | None:
    if exitcode is None or exitcode >= 0:
        return None
    import signal

    try:
        return signal.Signals(-exitcode).name
    except ValueError:
        return f"signal {-exitcode}"


class TaskCancelledError(SkateError):
    """The task or actor call was cancelled.

    Args:
        task_id: The task.
        error_message: What to say besides.
    """

    def __init__(self, task_id: Any = None, error_message: str | None = None) -> None:
        self.task_id = task_id
        self.error_message = error_message
        who = "The task" if task_id is None else f"Task {task_id}"
        super().__init__(f"{who} was cancelled." + (f" {error_message}" if error_message else ""))


class GetTimeoutError(SkateError, TimeoutError):
    """The value was not there in time.

    Args:
        message: What was waited for, and for how long.
        waits: What the attribute has.

    Attributes:
        waits: Why not, as far as the engine knows: a dictionary for each of the first objects that
            were missing, with the `name` of the work behind it, the `cause` ("running", "waiting",
            "queue", "arguments", "resources", "starting", "stopped", "silent", "backpressure",
            "library": the text says what one of skate's own waits for),
            `worker_pid`, `where` in your code, `required_resources`, `free_resources`, the
            `holders` of what is not free, `waits_for`, and the names in a `deadlock`.
    """

    def __init__(self, message: str = "", waits: Iterable[Mapping[str, object]] = ()) -> None:
        super().__init__(message)
        self.waits: list[dict[str, Any]] = [dict(row) for row in waits]


class _MessageError(SkateError):
    """An error that is a sentence, kept as `error_message`."""

    default = ""

    def __init__(self, error_message: str | None = None) -> None:
        self.error_message: str = error_message or self.default
        super().__init__(self.error_message)


class TaskUnschedulableError(_MessageError):
    """The task asks for what this machine can never give.

    Args:
        error_message: What happened, if there is more to say.
    """

    default = "The task cannot be scheduled."


class ActorUnschedulableError(_MessageError):
    """The actor asks for what this machine can never give.

    Args:
        error_message: What happened, if there is more to say.
    """

    default = "The actor cannot be scheduled."


class TaskPlacementGroupRemoved(_MessageError):
    """The placement group of the task was removed.

    Args:
        error_message: What happened, if there is more to say.
    """

    default = "The placement group of this task has been removed."


class ActorPlacementGroupRemoved(_MessageError):
    """The placement group of the actor was removed.

    Args:
        error_message: What happened, if there is more to say.
    """

    default = "The placement group of this actor has been removed."


class ActorAlreadyExistsError(_MessageError, ValueError):
    """The name is taken by a live actor.

    Args:
        error_message: What happened, if there is more to say.
    """


class ActorHandleNotFoundError(_MessageError, ValueError):
    """The handle belongs to another session.

    Args:
        error_message: What happened, if there is more to say.
    """

    default = (
        "This handle belongs to a session that has been shut down, and its actor has ended with "
        "it: start the actor again in the session that runs now"
    )


class RuntimeEnvSetupError(_MessageError):
    """The runtime environment could not be set up.

    Args:
        error_message: What happened, if there is more to say.
    """

    default = "the environment cannot be had."

    def __str__(self) -> str:
        return f"Failed to set up runtime environment: {self.error_message}"


class OutOfMemoryError(SkateError):
    """The machine ran out of memory and the work was ended to protect it.

    Args:
        message: What was ended, how much memory it had, and what there was.
    """

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class NodeDiedError(SkateError):
    """A machine of the cluster is gone.

    Args:
        message: Which one, as far as it is known.
    """

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class UnserializableException(SkateError):
    """Stands for an exception that cannot be pickled; its type and traceback are kept as text.

    Args:
        original_stack_trace: The traceback of the exception.
        type_name: Its type.
        reason: Why it cannot be pickled.
    """

    def __init__(self, original_stack_trace: str, type_name: str = "", reason: str = "") -> None:
        self.original_stack_trace = original_stack_trace
        self.type_name = type_name
        self.reason = reason
        what = f"{type_name} cannot be pickled ({reason})" if type_name else "cannot be unpickled"
        super().__init__(f"The exception {what}. Its traceback:\n{original_stack_trace}")


class UntrustedPickleError(SkateError, ValueError):
    """A pickle was not written by this user, so reading it might run anybody's code.

    Args:
        place: The file, or the part of one, that it is in.
        why: What was found about it, as the verb of a sentence.
        instead: Another way out, for the end of the message.

    Attributes:
        place: The file, or the part of one, that it is in.
    """

    def __init__(self, place: str, why: str = "is a pickle", instead: str = "") -> None:
        super().__init__(
            f"{place} {why}: reading it runs whatever code it contains, so it was not read. If "
            "you trust its origin, give allow_pickle=True to the call that reads it, or set "
            f"SKATE_ALLOW_PICKLE=1 in the environment{instead}"
        )
        self.place = place


class UnreadablePickleError(SkateError, ValueError):
    """A pickle can not be read: it is damaged, or needs code or objects that are not here.

    Args:
        place: The file that it is in.
        problem: What unpickling has raised.

    Attributes:
        place: The file that it is in.
    """

    def __init__(self, place: str, problem: BaseException) -> None:
        super().__init__(
            f"{place} cannot be unpickled ({type(problem).__name__}: {problem}): it is damaged, "
            "or needs modules, classes or objects that are not here. Import or install these, or "
            "write the file again"
        )
        self.place = place


class OutsideLinkError(SkateError, ValueError):
    """A folder has a link to somewhere else, which a copy of the folder would have read.

    Args:
        place: The link.
        target: Where it leads.
        where: Where that is, from the folder.

    Attributes:
        place: The link.
    """

    def __init__(self, place: str, target: str, where: str = "out of the folder") -> None:
        super().__init__(
            f"{place!r} is a link to {target!r}, which leads {where}: whoever made it may want a "
            "file of yours, so nothing was copied. If you trust its origin, copy the folder with "
            "`cp -rL` or shutil.copytree(), which follow links, and use that copy"
        )
        self.place = place


class ObjectStoreFullError(SkateError):
    """The object does not fit into the object store."""


class OufOfBandObjectRefSerializationException(SkateError):
    """A program has pickled a reference itself, which an environment variable forbids.

    That is `RAY_allow_out_of_band_object_ref_serialization=0`; without it, the object is kept
    until the session ends.
    """


class OutOfDiskError(SkateError):
    """Neither memory nor disk has room for the object."""


class ObjectLostError(SkateError):
    """The value no longer exists and cannot be computed again.

    Args:
        object_ref_hex: The reference, as its `hex()`.
        owner_address: Where its owner was, for Ray.
        call_site: Where the reference was made, for Ray.
    """

    reason = "its value was lost"

    def __init__(
        self, object_ref_hex: str, owner_address: bytes | None = None, call_site: str = ""
    ) -> None:
        self.object_ref_hex = object_ref_hex
        self.owner_address = owner_address
        self.call_site = call_site
        super().__init__(object_ref_hex)

    def __str__(self) -> str:
        made = f" The reference was made at {self.call_site}." if self.call_site else ""
        return f"Object {self.object_ref_hex} cannot be had: {self.reason}.{made}"


class ObjectFetchTimedOutError(ObjectLostError):
    """The value could not be fetched in time.

    Args:
        object_ref_hex: The reference, as its `hex()`.
        owner_address: Where its owner was, for Ray.
        call_site: Where the reference was made, for Ray.
    """

    reason = "fetching it took too long"


class ObjectFreedError(ObjectLostError):
    """The value was freed by hand.

    Args:
        object_ref_hex: The reference, as its `hex()`.
        owner_address: Where its owner was, for Ray.
        call_site: Where the reference was made, for Ray.
    """

    reason = "it was freed by the program"


class OwnerDiedError(ObjectLostError):
    """The process that owned the value is gone.

    Args:
        object_ref_hex: The reference, as its `hex()`.
        owner_address: Where its owner was, for Ray.
        call_site: Where the reference was made, for Ray.
    """

    reason = "the process that owned it is gone"


class StaleReferenceError(ObjectLostError, ValueError):
    """The reference belongs to a session that has been shut down.

    Args:
        object_ref_hex: The reference, as its `hex()`.
        owner_address: Where its owner was, for Ray.
        call_site: Where the reference was made, for Ray.
    """

    reason = "it belongs to a session that has been shut down"

    def __str__(self) -> str:
        if library_name() != "ray":
            return super().__str__()
        return (
            f"{super().__str__()} It is a Ray object whose owner is unknown now; "
            "Ray objects whose owner is unknown have to be made again, in the session that runs."
        )


class ObjectReconstructionFailedError(ObjectLostError):
    """The value was lost and running its task again is not possible.

    Args:
        object_ref_hex: The reference, as its `hex()`.
        reason: Why not.
        reason_message: The same in more words, which is then shown.
        owner_address: Where its owner was, for Ray.
        call_site: Where the reference was made, for Ray.
    """

    def __init__(
        self,
        object_ref_hex: str,
        reason: str | None = None,
        reason_message: str | None = None,
        owner_address: bytes | None = None,
        call_site: str = "",
    ) -> None:
        super().__init__(object_ref_hex, owner_address, call_site)
        self.reason: str = reason_message or reason or "it was lost and cannot be computed again"
        self.reason_message: str = self.reason


class ObjectRefStreamEndOfStreamError(SkateError):
    """A streaming task has no more items."""


class PlasmaObjectNotAvailable(SkateError):
    """The value was not in the store in time."""


class PendingCallsLimitExceeded(SkateError):
    """More calls are queued at the actor than its max_pending_calls allows."""


class AsyncioActorExit(SkateError):
    """An async actor ends itself."""


class SkateSystemError(SkateError):
    """A fault of skate or its surroundings, not of user code.

    Args:
        client_exc: What happened: an exception, or text.
        traceback_str: Where it happened.
    """

    def __init__(self, client_exc: Any, traceback_str: str | None = None) -> None:
        self.client_exc = client_exc
        self.traceback_str = traceback_str
        super().__init__(client_exc)

    def __str__(self) -> str:
        text = f"System error: {self.client_exc}"
        return f"{text}\n{self.traceback_str}" if self.traceback_str else text


class PlacementGroupExistsError(SkateSystemError, ValueError):
    """The name is taken by a placement group that was not removed.

    Args:
        name: The name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"a placement group named {name!r} exists already")
        self.name = name

    def __str__(self) -> str:
        return str(self.client_exc)  # it is no fault of the system, whatever its kind

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.name,)


class GraphClosedError(SkateSystemError, RuntimeError):
    """A compiled graph was used after its `teardown`.

    Args:
        client_exc: What was asked of it.
        traceback_str: Where it was asked.
    """


class GraphFullError(SkateSystemError):
    """A compiled graph was executed again while as many executions run as it may have.

    Args:
        client_exc: How many there may be.
        traceback_str: Where it was executed.
    """


RayError = SkateError
RayTaskError = TaskError
RayActorError = ActorError
RaySystemError = SkateSystemError
