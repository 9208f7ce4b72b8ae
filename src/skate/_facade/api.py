"""The functions of the façade: each checks what it was given and makes one call on the engine."""

from __future__ import annotations

import os
import sys
from typing import Any, TypeVar, overload

import skate.engine as _engine
from skate._core import options as option_table
from skate._core.argument_checks import seconds, shown, text, whole_number, wrong_type
from skate._core.errors import without_own_frames
from skate._core.promised import Deadline, Promised, has_promised
from skate._core.refs import ObjectRef, ObjectRefGenerator
from skate._facade import metrics_port, page
from skate._facade.actor import Actor
from skate._facade.actor_handle import ActorHandle
from skate._facade.client_context import ClientContext
from skate._facade.init import init
from skate.engine import (
    changing,
    check_may_begin,
    current_engine,
    engine_of,
    engine_of_actor,
    installed_engine,
    leaving_session,
)
from skate.exceptions import SkateError

__all__ = [
    "ClientContext",
    "available_resources",
    "cancel",
    "cluster_resources",
    "get",
    "get_actor",
    "get_gpu_ids",
    "init",
    "is_initialized",
    "kill",
    "nodes",
    "put",
    "shutdown",
    "timeline",
    "wait",
]

__tracebackhide__ = True  # pytest shows the user's line, and not the source of `get`

T = TypeVar("T")
Ref = TypeVar("Ref", bound=ObjectRef[Any])
W = TypeVar("W", bound="ObjectRef[Any] | ObjectRefGenerator[Any]")

_ONE_REF = {ObjectRef}


# -- life ---------------------------------------------------------------------------------------


def is_initialized() -> bool:
    """Return whether an engine runs in this process.

    Example:
        >>> _ = skate.put(1)  # what needs a session begins one
        >>> skate.is_initialized()
        True
    """
    return installed_engine() is not None


def shutdown(wait_for_processes: bool = True, _exiting_interpreter: bool = False) -> None:
    """End all tasks and actors and free all objects; `init` can be called again.

    Args:
        wait_for_processes: Without effect: processes are always waited for, which takes
            milliseconds, so that nothing is left behind.
        _exiting_interpreter: Without effect: it ends in the same way at the end of the program.

    Example:
        >>> _ = skate.init(engine="inline")
        >>> skate.shutdown()
        >>> skate.is_initialized()
        False
    """
    with changing:
        engine = installed_engine()
        if engine is not None:
            page.close()
            metrics_port.close()
            with leaving_session():
                engine.shutdown()


# -- objects ------------------------------------------------------------------------------------


@overload
def get(
    object_refs: ObjectRef[T],
    *,
    timeout: float | None = None,
    copy: bool = False,
    _use_object_store: bool = False,
) -> T: ...
@overload
def get(
    object_refs: list[ObjectRef[T]],
    *,
    timeout: float | None = None,
    copy: bool = False,
    _use_object_store: bool = False,
) -> list[T]: ...
@overload
def get(
    object_refs: list[Ref],
    *,
    timeout: float | None = None,
    copy: bool = False,
    _use_object_store: bool = False,
) -> list[Any]: ...
@overload
def get(
    object_refs: ObjectRefGenerator[T],
    *,
    timeout: float | None = None,
    copy: bool = False,
    _use_object_store: bool = False,
) -> ObjectRefGenerator[T]: ...
def get(
    object_refs: ObjectRef[Any] | list[Any] | ObjectRefGenerator[Any],
    *,
    timeout: float | None = None,
    copy: bool = False,
    _use_object_store: bool = False,
) -> Any:
    """Return the value of a reference, or the values of a list of them.

    Args:
        object_refs: A reference, or a list of them. A generator of them is returned as it is.
        timeout: Seconds to wait at the most; None waits for ever, 0 only looks.
        copy: Whether arrays are writable copies, and not read-only views on shared memory.
        _use_object_store: Without effect: all values come through the object store.

    Returns:
        The value, or a list of the values in the order of the references.

    Raises:
        TaskError: If the task raised, as an instance of that exception's own type too.
        GetTimeoutError: If `timeout` seconds have passed.
        StaleReferenceError: If it is of a session that has ended. No session begins for it.
        ValueError: If it is neither a reference nor a list.

    Example:
        >>> skate.get([skate.put(1), skate.put(2)])
        [1, 2]
    """
    if timeout is not None:
        timeout = None if timeout == -1 else seconds("timeout", timeout)  # -1: as in Ray
    try:
        if type(object_refs) is ObjectRef:
            engine = _engine._current or engine_of(object_refs)
            return engine.get((object_refs,), timeout, copy)[0]
        if type(object_refs) is list and set(map(type, object_refs)) <= _ONE_REF:
            if not object_refs:
                check_may_begin()
                return []
            engine = _engine._current or engine_of(object_refs[0])
            return engine.get(object_refs, timeout, copy)
    except (SkateError, KeyboardInterrupt) as error:
        raise without_own_frames(error)
    if isinstance(object_refs, ObjectRefGenerator):
        return object_refs
    if has_promised(object_refs):
        return _promised_values(object_refs, Deadline(timeout), copy)
    raise _not_refs(object_refs)


def _promised_values(given: Any, deadline: Deadline, copy: bool) -> Any:
    if isinstance(given, list):
        return [_promised_values(item, deadline, copy) for item in given]
    if type(given) is ObjectRef:
        return get(given, timeout=deadline.left(), copy=copy)
    return given._promised(deadline.left())


def works_elsewhere() -> bool:
    """Return whether tasks run in other processes, for libraries that work ahead of a caller."""
    return current_engine().has_workers


def get_own(ref: ObjectRef[T]) -> T:
    """Return the value of a reference, for libraries that write into its arrays: nobody else sees
    that, and what is not written to is not copied.

    Args:
        ref: The reference, for which it waits.

    Raises:
        TaskError: If the task raised.
    """
    try:
        return current_engine().get_own(ref)
    except SkateError as error:
        raise without_own_frames(error)


def _not_refs(given: object) -> Exception:
    wanted = "get() takes an ObjectRef or a list of ObjectRefs"
    if isinstance(given, ActorHandle):
        return ValueError(f"{wanted}; got the handle {given!r}: call one of its methods first")
    if isinstance(given, dict):
        return ValueError(f"{wanted}; got dict: {shown(given)}: write get(list(refs.values()))")
    if not isinstance(given, list):
        return ValueError(
            f"{wanted}; got {type(given).__name__}: {shown(given)}: {_instead_of(given)}"
        )
    taken = (ObjectRef, Promised)
    index, item = next((i, x) for i, x in enumerate(given) if not isinstance(x, taken))
    hint = ": flatten nested lists first" if isinstance(item, (list, tuple)) else ""
    return TypeError(f"{wanted}; item {index} is {type(item).__name__}: {shown(item)}{hint}")


def _instead_of(given: Any) -> str:
    """Return what to give to get() instead of what is no reference and no list."""
    if isinstance(given, tuple) and any(isinstance(part, list) for part in given):
        return "take one of the lists in it, as in `ready, rest = skate.wait(refs)`"
    if isinstance(given, (tuple, set)) or hasattr(given, "__next__") or hasattr(given, "tolist"):
        return "make it a list"
    if callable(getattr(given, "remote", None)):
        return "call it first, with .remote(...)"
    if hasattr(given, "cr_await"):  # a coroutine
        return "await it, or run it with asyncio.run(); get() is for calls by .remote(...)"
    if callable(getattr(given, "result", None)):  # a future, or the response of a handle
        return "wait for it with its result(), or await it"
    return "what is no reference is a value already"


def put(
    value: T, *, _owner: ActorHandle[Any] | None = None, _tensor_transport: str | None = None
) -> ObjectRef[T]:
    """Store a value and return a reference to it.

    A large value is stored once, and shared by all processes that get it.

    Args:
        value: Anything that can be pickled, except a reference.
        _owner: An actor that the value is to live as long as; without effect here, where values
            live as long as their references, whoever has put them.
        _tensor_transport: As of a method's `tensor_transport`; without effect here, where tensors
            are in shared memory in any case.

    Returns:
        A reference, to be given to `get`, tasks and actors.

    Raises:
        TypeError: If it is a reference already, or cannot be pickled; the message says what inside
            of it cannot. If the owner is no actor.

    Example:
        >>> ref = skate.put({"a": 1})
        >>> skate.get(ref)
        {'a': 1}
    """
    if type(value) is ObjectRef:
        raise TypeError(
            "put() takes a value, and this is a reference already; put a list that holds it, "
            "[ref], if a reference to the reference is wanted"
        )
    if _owner is not None and not isinstance(_owner, ActorHandle):
        raise wrong_type("_owner", _owner, "the handle of an actor")
    if _tensor_transport is not None:
        option_table.tensor_transport("_tensor_transport", _tensor_transport)
    return (_engine._current or current_engine()).put(value)


def wait(
    ray_waitables: list[W],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[W], list[W]]:
    """Wait until some of the references are ready, without fetching them.

    Args:
        ray_waitables: References to wait for, each at most once. Errors count as ready; a
            generator of references is ready when its next one is.
        num_returns: How many must be ready.
        timeout: Seconds after which it returns with fewer; None waits for ever, 0 only looks.
        fetch_local: Without effect: all values are local.

    Returns:
        Two lists, ready and not ready, in the order given; ready has at most `num_returns`.

    Raises:
        ValueError: If there are duplicates, or `num_returns` is out of range, or a reference is of
            a session that has ended (`StaleReferenceError`).

    Example:
        >>> ready, rest = skate.wait([skate.put(1), skate.put(2)])
        >>> len(ready), len(rest)
        (1, 1)
    """
    plain = _check_waitables(ray_waitables)
    if timeout is not None:
        timeout = seconds("timeout", timeout)
    if not ray_waitables:
        check_may_begin()
        return [], []
    if len(set(ray_waitables)) != len(ray_waitables):
        raise ValueError(
            "wait() takes each reference once; this list has duplicates: "
            "list(dict.fromkeys(refs)) has none"
        )
    if type(num_returns) is not int:
        num_returns = whole_number("num_returns", num_returns)
    if not 1 <= num_returns <= len(ray_waitables):
        raise ValueError(
            f"num_returns takes a number from 1 to {len(ray_waitables)}, as many as there are "
            f"references; got {num_returns}"
        )
    engine = _engine._current or engine_of(_reference_of(ray_waitables[0]))
    try:
        if plain:  # so that these are references, and no generators
            return engine.wait(ray_waitables, num_returns, timeout)  # type: ignore[arg-type,return-value]
        return engine.wait_mixed(ray_waitables, num_returns, timeout)
    except KeyboardInterrupt as error:
        raise without_own_frames(error)


def _check_waitables(given: object) -> bool:
    """Return whether all are ObjectRefs; raise TypeError for what cannot be waited for."""
    wanted = "wait() takes a list of ObjectRefs"
    if isinstance(given, (ObjectRef, ObjectRefGenerator)):
        raise TypeError(f"{wanted}; got a single one: write [ref]")
    if not isinstance(given, list):
        raise TypeError(f"{wanted}; got {type(given).__name__}")
    if [*map(type, given)].count(ObjectRef) == len(given):  # wait() is called in loops
        return True
    for index, item in enumerate(given):
        if not isinstance(item, (ObjectRef, ObjectRefGenerator)):
            raise TypeError(f"{wanted}; item {index} is {type(item).__name__}: {shown(item)}")
    return False


def _reference_of(waitable: object) -> Any:
    return waitable._generator_ref if isinstance(waitable, ObjectRefGenerator) else waitable


def cancel(
    ray_waitable: ObjectRef[object] | ObjectRefGenerator[object],
    *,
    force: bool = False,
    recursive: bool = True,
) -> None:
    """Cancel the task or actor call behind a reference; `get` then raises TaskCancelledError.

    What has not started never runs, what runs is interrupted, and what is finished stays.

    Args:
        ray_waitable: The reference that the call has returned, or its generator of references.
        force: Whether to kill the process of a task that runs, and not only to interrupt it.
        recursive: Whether to cancel what it has started in turn.

    Raises:
        TypeError: If it is no reference; an actor is ended by `kill`.

    Example:
        >>> import time
        >>> @skate.remote
        ... def sleep() -> None:
        ...     time.sleep(600)
        >>> ref = sleep.remote()
        >>> skate.cancel(ref)
        >>> try:
        ...     skate.get(ref)
        ... except skate.exceptions.TaskCancelledError:
        ...     print("cancelled")
        cancelled
    """
    ref = _reference_of(ray_waitable)
    if not isinstance(ref, ObjectRef):
        check_may_begin()
        raise TypeError(
            f"cancel() takes an ObjectRef or ObjectRefGenerator; got {shown(ray_waitable)}"
            + ("; end an actor with kill()" if isinstance(ray_waitable, ActorHandle) else "")
            + ("; cancel one after the other" if isinstance(ray_waitable, (list, tuple)) else "")
        )
    engine_of(ref).cancel(ref, force, recursive)


# -- actors -------------------------------------------------------------------------------------


def kill(actor: ActorHandle[Any] | Actor, *, no_restart: bool = True) -> None:
    """End an actor at once; its calls under way raise ActorDiedError.

    Args:
        actor: The handle of the actor.
        no_restart: Whether it stays dead; if not, it starts again as often as its `max_restarts`
            allows.

    Raises:
        ValueError: If it is not the handle of an actor; a task is ended by `cancel`.
        ActorHandleNotFoundError: If the handle is of a session that has ended.

    Example:
        >>> @skate.remote
        ... class Worker:
        ...     def ping(self) -> str:
        ...         return "pong"
        >>> worker = Worker.remote()
        >>> skate.kill(worker)
        >>> try:
        ...     skate.get(worker.ping.remote())
        ... except skate.exceptions.ActorDiedError:
        ...     print("dead")
        dead
    """
    if sys.is_finalizing():
        return  # from a `__del__`: all actors have ended, and nothing can be imported any more
    if not isinstance(actor, ActorHandle):
        check_may_begin()
        raise ValueError(
            f"kill() takes the handle of an actor; got {shown(actor)}; "
            + (
                f"the actor of that name is get_actor({actor!r})"
                if isinstance(actor, str)
                else "end a task with cancel()"
            )
        )
    engine_of_actor().kill(actor._ref, no_restart)


def get_actor(name: str, namespace: str | None = None) -> Any:
    """Return a handle to the live actor of that name.

    Type checkers cannot know its class: say it, as in `counter: Counter = get_actor("counter")` or
    `counter: ActorHandle[Counter] = get_actor("counter")`.

    Args:
        name: What the actor was given as `name`.
        namespace: Where the name counts; None is the namespace of this program.

    Raises:
        ValueError: If there is none, with the names that there are.

    Example:
        >>> @skate.remote
        ... class Register:
        ...     def size(self) -> int:
        ...         return 0
        >>> register = Register.options(name="register").remote()
        >>> skate.get(skate.get_actor("register").size.remote())
        0
    """
    text("name", name or "", "the name of an actor")
    where = option_table.namespace("namespace", namespace)
    try:
        handle: ActorHandle[Any] = ActorHandle(*current_engine().get_actor(name, where))
    except ValueError as error:
        raise without_own_frames(error)
    return handle


# -- surroundings -------------------------------------------------------------------------------


def nodes() -> list[dict[str, Any]]:
    """Return a dictionary per machine: its id, address, resources, labels and whether it is alive.

    Example:
        >>> len(skate.nodes())
        1
    """
    return current_engine().nodes()


def cluster_resources() -> dict[str, float]:
    """Return all resources that there are, by their names; memory is in bytes.

    Example:
        >>> skate.cluster_resources()["CPU"] >= 1
        True
    """
    return current_engine().cluster_resources()


def available_resources() -> dict[str, float]:
    """Return the resources that are not in use now, by their names.

    Less than nothing is left where `experimental.set_resource` has taken away what is in use.

    Example:
        >>> skate.available_resources().get("CPU", 0) <= skate.cluster_resources()["CPU"]
        True
    """
    return current_engine().available_resources()


def get_gpu_ids() -> list[int | str]:
    """Return the GPUs that this task or actor may use; none of them in the program itself.

    Example:
        >>> @skate.remote
        ... def gpus() -> list[int | str]:
        ...     return skate.get_gpu_ids()
        >>> skate.get(gpus.remote())
        []
    """
    return list(current_engine().context().gpu_ids)


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Tell what ran when, as events that Chrome's `about:tracing` and Perfetto show.

    Args:
        filename: The JSON file that the events are written to; None returns them.

    Returns:
        The events, or None if they were written.

    Raises:
        TypeError: If `filename` is no path.

    Example:
        >>> isinstance(skate.timeline(), list)
        True
    """
    if filename is not None and not isinstance(filename, (str, os.PathLike)):
        raise wrong_type("filename", filename, "None or the path of a file")
    events = current_engine().timeline()
    if filename is None:
        return events
    import json

    with open(filename, "w") as file:
        json.dump(events, file)
    return None
