"""The functions of the façade: each checks what it was given and makes one call on the engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import skate.engine as _engine
from skate._core import options as option_table
from skate._core.argument_checks import seconds, shown, text, whole_number, wrong_type
from skate._core.refs import ObjectRef, ObjectRefGenerator
from skate._facade.actor import ActorHandle
from skate._facade.init import ClientContext, init
from skate.engine import changing, current_engine, install_engine, installed_engine

if TYPE_CHECKING:
    pass

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

_ONE_REF = {ObjectRef}


# -- life ---------------------------------------------------------------------------------------


def is_initialized() -> bool:
    """Whether an engine runs in this process."""
    return installed_engine() is not None


def shutdown(wait_for_processes: bool = True, _exiting_interpreter: bool = False) -> None:
    """End all tasks and actors and free all objects; `init` can be called again.

    Args:
        wait_for_processes: Without effect: processes are always waited for, which takes
            milliseconds, so that nothing is left behind.
        _exiting_interpreter: Without effect: it ends in the same way at the end of the program.
    """
    with changing:
        engine = installed_engine()
        if engine is not None:
            install_engine(None)
            engine.shutdown()


# -- objects ------------------------------------------------------------------------------------


def get(
    object_refs: ObjectRef[Any] | Sequence[ObjectRef[Any]],
    *,
    timeout: float | None = None,
    copy: bool = False,
    _use_object_store: bool = False,
) -> Any:
    """The value of a reference, or the values of a list of them.

    Raises what the task raised, as an instance of its own type too; GetTimeoutError after
    `timeout` seconds. Arrays are read-only views on shared memory; `copy=True` makes them
    writable. All values come through the object store, so `_use_object_store` changes nothing.
    """
    if timeout is not None:
        timeout = None if timeout == -1 else seconds("timeout", timeout)  # -1: as in Ray
    engine = _engine._current or current_engine()
    if type(object_refs) is ObjectRef:
        return engine.get((object_refs,), timeout, copy)[0]
    if type(object_refs) is list and set(map(type, object_refs)) <= _ONE_REF:
        return engine.get(object_refs, timeout, copy) if object_refs else []
    if isinstance(object_refs, ObjectRefGenerator):
        return object_refs
    raise _not_refs(object_refs)


def _not_refs(given: Any) -> Exception:
    wanted = "get() takes an ObjectRef or a list of ObjectRefs"
    if isinstance(given, ActorHandle):
        return ValueError(f"{wanted}; got the handle {given!r}: call one of its methods first")
    if not isinstance(given, list):
        return ValueError(f"{wanted}; got {type(given).__name__}: {shown(given)}")
    index, item = next((i, x) for i, x in enumerate(given) if type(x) is not ObjectRef)
    hint = ": flatten nested lists first" if isinstance(item, (list, tuple)) else ""
    return TypeError(f"{wanted}; item {index} is {type(item).__name__}: {shown(item)}{hint}")


def put(value: Any, *, _owner: Any = None, _tensor_transport: str | None = None) -> ObjectRef[Any]:
    """Store a value and return a reference to it."""
    if type(value) is ObjectRef:
        raise TypeError(
            "put() takes a value, and this is a reference already; put a list that holds it, "
            "[ref], if a reference to the reference is wanted"
        )
    if _owner is not None:
        raise ValueError("_owner is not supported: objects outlive the process that puts them")
    if _tensor_transport not in (None, "object_store"):
        raise ValueError(
            f"_tensor_transport takes None or 'object_store' on one machine; "
            f"got {_tensor_transport!r}"
        )
    return (_engine._current or current_engine()).put(value)


def wait(
    ray_waitables: list[Any],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[Any], list[Any]]:
    """Wait until `num_returns` are ready; returns (ready, not ready), each in the given order.

    Returns earlier, with fewer, after `timeout` seconds. Errors count as ready. A generator is
    ready when its next item is. All values are local, so `fetch_local` changes nothing.
    """
    plain = _check_waitables(ray_waitables)
    if timeout is not None:
        timeout = seconds("timeout", timeout)
    if not ray_waitables:
        return [], []
    if len(set(ray_waitables)) != len(ray_waitables):
        raise ValueError("wait() takes each reference once; this list has duplicates")
    if type(num_returns) is not int:
        num_returns = whole_number("num_returns", num_returns)
    if not 1 <= num_returns <= len(ray_waitables):
        raise ValueError(
            f"num_returns takes 1 to {len(ray_waitables)}, the number of references; "
            f"got {num_returns}"
        )
    engine = _engine._current or current_engine()
    if plain:
        return engine.wait(ray_waitables, num_returns, timeout)
    return engine.wait_mixed(ray_waitables, num_returns, timeout)


def _check_waitables(given: Any) -> bool:
    """Whether all are ObjectRefs; raises TypeError for what cannot be waited for."""
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


def cancel(
    ray_waitable: ObjectRef[Any] | ObjectRefGenerator,
    *,
    force: bool = False,
    recursive: bool = True,
) -> None:
    """Cancel the task or actor call behind a reference; `get` then raises TaskCancelledError.

    What has not started never runs; what runs is interrupted, or with `force` its process is
    killed; what is finished stays. `recursive` cancels what it has started in turn.
    """
    ref = ray_waitable
    if isinstance(ref, ObjectRefGenerator):
        ref = ref._generator_ref
    if not isinstance(ref, ObjectRef):
        raise TypeError(
            f"cancel() takes an ObjectRef or ObjectRefGenerator; got {shown(ray_waitable)}"
            + ("; end an actor with kill()" if isinstance(ray_waitable, ActorHandle) else "")
        )
    current_engine().cancel(ref, force, recursive)


# -- actors -------------------------------------------------------------------------------------


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """End an actor at once; its calls under way raise ActorDiedError.

    With `no_restart=False` it starts again if its max_restarts allows.
    """
    if not isinstance(actor, ActorHandle):
        raise ValueError(
            f"kill() takes the handle of an actor; got {shown(actor)}; end a task with cancel()"
        )
    current_engine().kill(actor._ref, no_restart)


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """A handle to the live actor of that name."""
    text("name", name, "the name of an actor")
    where = option_table.namespace("namespace", namespace)
    return ActorHandle(*current_engine().get_actor(name, where))


# -- surroundings -------------------------------------------------------------------------------


def nodes() -> list[dict[str, Any]]:
    """One dictionary per machine."""
    return current_engine().nodes()


def cluster_resources() -> dict[str, float]:
    """All resources there are."""
    return current_engine().cluster_resources()


def available_resources() -> dict[str, float]:
    """The resources that are not in use now."""
    return current_engine().available_resources()


def get_gpu_ids() -> list[int | str]:
    """The GPUs that this task or actor may use."""
    return list(current_engine().context().gpu_ids)


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """What ran when, as Chrome trace events: returned, or written to a JSON file."""
    if filename is not None and not isinstance(filename, (str, os.PathLike)):
        raise wrong_type("filename", filename, "None or the path of a file")
    events = current_engine().timeline()
    if filename is None:
        return events
    import json

    with open(filename, "w") as file:
        json.dump(events, file)
    return None
