"""What `get_runtime_context()` says inside a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._core import serialization
from skate.engine.specs import Context, method_name

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.execution import Execution
    from skate.engine.local.messages import WorkSettings
    from skate.engine.local.preparation import Running


def build_context(execution: Execution, running: Running | None) -> Context:
    engine = execution.engine
    settings = engine.settings
    actor = execution.actor.settings
    own: WorkSettings = {**actor, **(running.settings if running else {})}
    actor_id = execution.actor.id
    return Context(
        job_id=settings["job_id"],
        node_id=settings["node_id"],
        worker_id=engine.process.to_bytes(28, "big").hex(),
        namespace=actor.get("namespace") or settings["namespace"],
        task_id=_hex(running.id, 24) if running else None,
        task_name=_task_name(execution, running),
        function_name=_full_name(execution, running),
        actor_id=_hex(actor_id, 16) if actor_id else None,
        actor_name=actor.get("name"),
        actor=_own_handle(execution),
        actor_restarted=bool(actor.get("restarted")),
        placement_group=_loaded(own.get("placement_group")),
        capture_child_tasks=bool(own.get("capture_child_tasks")),
        resources=own.get("resources", {} if actor_id else {"CPU": 1.0}),
        gpu_ids=tuple(own.get("accelerators", {}).get("GPU", ())),
        accelerator_ids=own.get("accelerators", {}),
        runtime_env=_loaded(own.get("runtime_env")) or {},
        cancelled=bool(running and running.id in execution.cancelled),
        session_name=settings["session_name"],
        temp_dir=settings["session_dir"],
        scratch_dir=settings["session_dir"],
    )


def _task_name(execution: Execution, running: Running | None) -> str | None:
    if running is None:
        return None
    given = running.settings.get("name")
    if given and running.id != execution.actor.id:
        return given
    if execution.actor.id and running.id != execution.actor.id:
        return f"{execution.actor.label}.{running.function_name}"
    return running.function_name


def _full_name(execution: Execution, running: Running | None) -> str | None:
    """Return the name with the module of the function, or of the actor's class."""
    if running is None:
        return None
    if not execution.actor.id:
        return f"{getattr(running.function, '__module__', '')}.{running.function_name}"
    cls = type(execution.actor.instance)
    is_async = execution.actor.settings["is_async"]
    # The constructor comes as "Class.__init__", other methods by their own name.
    method = running.function_name.rpartition(".")[2]
    return method_name(cls, execution.actor.label, method, is_async=is_async)


def _own_handle(execution: Execution) -> Any:
    if not execution.actor.id:
        return None
    ref = execution.engine.adopt(execution.actor.id)
    return ref, serialization.loads(execution.actor.settings["meta"])


def _loaded(packed: Packed | None) -> Any:
    return None if packed is None else serialization.loads(packed)


def _hex(id: int, size: int) -> str:
    return id.to_bytes(size, "big").hex()
