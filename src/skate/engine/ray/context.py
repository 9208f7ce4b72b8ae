"""What `get_runtime_context()` says, in Ray's words."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import ray
from ray._private.state import actors

from skate._core.accelerators import as_id
from skate.engine.ray.hosts import hosted_meta, is_cancelled
from skate.engine.specs import Context

if TYPE_CHECKING:
    from skate.engine.ray.references import References


def build_context(references: References) -> Context:
    place = ray.get_runtime_context()
    in_task = place.worker.mode == ray.WORKER_MODE and place.get_task_id() is not None
    actor_id = place.get_actor_id() if in_task else None
    node = ray._private.worker.global_worker.node
    return Context(
        job_id=place.get_job_id(),
        node_id=place.get_node_id(),
        worker_id=place.get_worker_id(),
        namespace=place.namespace,
        task_id=place.get_task_id() if in_task else None,
        task_name=place.get_task_name() if in_task else None,
        function_name=place.get_task_function_name() if in_task else None,
        actor_id=actor_id,
        actor_name=place.get_actor_name() if actor_id else None,
        actor=_actor(place, references) if actor_id else None,
        actor_restarted=actor_id is not None and _was_restarted(actor_id),
        placement_group=_group(references) if in_task else None,
        capture_child_tasks=bool(in_task and place.should_capture_child_tasks_in_placement_group),
        resources=place.get_assigned_resources() if in_task else {},
        gpu_ids=tuple(map(as_id, place.get_accelerator_ids().get("GPU", ()))),
        accelerator_ids={
            name: tuple(map(as_id, ids)) for name, ids in place.get_accelerator_ids().items()
        },
        runtime_env=dict(place.runtime_env),
        cancelled=in_task and is_cancelled(),
        session_name=place.get_session_name() if hasattr(place, "get_session_name") else "",
        temp_dir=node.get_session_dir_path() if node is not None else "",
    )


@cache
def _was_restarted(actor_id: str) -> bool:
    """Return whether the actor of this process is not the first. Asks the cluster once: each
    restart is a process of its own. Ray's `was_current_actor_reconstructed` asks each time, and
    warns about itself."""
    found = actors(actor_id=actor_id)
    return bool(found and found["NumRestarts"])


def _actor(place: Any, references: References) -> Any:
    meta = hosted_meta()
    return None if meta is None else (references.of_actor(place.current_actor), meta)


def _group(references: References) -> Any:
    group = ray.util.get_current_placement_group()
    return None if group is None else references.of_group(group)
