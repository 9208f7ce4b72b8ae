"""Where the calling code runs: job, node, task, actor, resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._core.accelerators import NUMBERED
from skate._core.deprecations import warn_of_use
from skate._core.ids import ActorID, JobID, NodeID, PlacementGroupID, TaskID, actor_id_of
from skate._facade import page
from skate.engine import current_engine

if TYPE_CHECKING:
    from skate._facade.actor_handle import ActorHandle
    from skate.engine.base import Engine
    from skate.engine.specs import Context
    from skate.runtime_env import RuntimeEnv


class RuntimeContext:
    """Answers for the code that asks; made by `get_runtime_context()`."""

    def __init__(self, worker: Any = None) -> None:
        self._engine: Engine = worker or current_engine()

    @property
    def _context(self) -> Context:
        return self._engine.context()

    def get(self) -> dict[str, Any]:
        """Return the ids of job, node, namespace, and of task and actor if there are any."""
        context = self._context
        found: dict[str, Any] = {
            "job_id": JobID.from_hex(context.job_id),
            "node_id": NodeID.from_hex(context.node_id),
            "namespace": context.namespace,
        }
        if context.task_id is not None:
            found["task_id"] = TaskID.from_hex(context.task_id)
        if context.actor is not None:
            found["actor_id"] = actor_id_of(context.actor[0])
        return found

    # -- ids -----------------------------------------------------------------------------------

    @property
    def job_id(self) -> JobID:
        warn_of_use("job_id", "get_job_id()")
        return JobID.from_hex(self._context.job_id)

    @property
    def node_id(self) -> NodeID:
        warn_of_use("node_id", "get_node_id()")
        return NodeID.from_hex(self._context.node_id)

    @property
    def task_id(self) -> TaskID | None:
        warn_of_use("task_id", "get_task_id()")
        task_id = self._context.task_id
        return None if task_id is None else TaskID.from_hex(task_id)

    @property
    def actor_id(self) -> ActorID | None:
        warn_of_use("actor_id", "get_actor_id()")
        actor = self._context.actor
        return None if actor is None else actor_id_of(actor[0])

    def get_job_id(self) -> str:
        return self._context.job_id

    def get_node_id(self) -> str:
        return self._context.node_id

    def get_worker_id(self) -> str:
        return self._context.worker_id

    def get_task_id(self) -> str | None:
        """Return the task that runs this code; None in the driver."""
        return self._context.task_id

    def get_actor_id(self) -> str | None:
        """Return the actor that runs this code; None outside actors."""
        actor = self._context.actor
        return None if actor is None else actor_id_of(actor[0]).hex()

    # -- names ---------------------------------------------------------------------------------

    def get_task_name(self) -> str | None:
        """Return the name given by options(name=...), or the function's."""
        return self._context.task_name

    def get_task_function_name(self) -> str | None:
        return self._context.function_name

    def get_actor_name(self) -> str | None:
        """Return the name of a named actor, "" for another one, None outside actors."""
        context = self._context
        return None if context.actor is None else context.actor_name or ""

    @property
    def namespace(self) -> str:
        return self._context.namespace

    def get_session_name(self) -> str:
        return self._context.session_name

    def get_temp_dir(self) -> str:
        return self._context.temp_dir

    @property
    def _scratch_dir(self) -> str | None:
        """Where to write what must not outlive the session; None: anywhere."""
        return self._context.scratch_dir or None

    @property
    def gcs_address(self) -> str:
        """What `init(address)` takes in another process: the cluster's, or "local"."""
        return self._engine.address

    def get_dashboard_url(self) -> str:
        """Return the address of the session's page, without `http://`.

        "" if there is none, and elsewhere than in the driver; RAY_OVERRIDE_DASHBOARD_URL may name
        another.
        """
        return page.address()

    # -- actor ---------------------------------------------------------------------------------

    @property
    def current_actor(self) -> ActorHandle[Any]:
        """A handle to the actor that runs this code."""
        from skate._facade.actor_handle import ActorHandle

        actor = self._context.actor
        if actor is None:
            raise RuntimeError("current_actor exists inside actors only; this code runs in none")
        return ActorHandle(*actor)

    @property
    def was_current_actor_reconstructed(self) -> bool:
        context = self._context
        if context.actor is None:
            raise RuntimeError("only an actor can have been restarted; this code runs in none")
        return context.actor_restarted

    # -- resources and surroundings ------------------------------------------------------------

    @property
    def current_placement_group_id(self) -> PlacementGroupID | None:
        warn_of_use("current_placement_group_id", "get_placement_group_id()")
        return _current_placement_group_id()

    def get_placement_group_id(self) -> str | None:
        group_id = _current_placement_group_id()
        return None if group_id is None else group_id.hex()

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        return self._context.capture_child_tasks

    def get_assigned_resources(self) -> dict[str, float]:
        """Return what this task or actor asked for."""
        return dict(self._context.resources)

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Return the accelerators that this task or actor may use, by resource."""
        ids = {"GPU": self._context.gpu_ids, **self._context.accelerator_ids}
        return {name: [str(one) for one in ids.get(name, ())] for name in NUMBERED}

    def get_resource_ids(self) -> dict[str, list[str]]:
        warn_of_use("get_resource_ids()", "get_accelerator_ids()")
        return self.get_accelerator_ids()

    def get_node_labels(self) -> dict[str, str]:
        here = self._context.node_id
        labels = {node["NodeID"]: node["Labels"] for node in self._engine.nodes()}
        return dict(labels[here])

    @property
    def runtime_env(self) -> RuntimeEnv:
        from skate.runtime_env import RuntimeEnv

        return RuntimeEnv(_validate=False, **self._context.runtime_env)

    def get_runtime_env_string(self) -> str:
        return self.runtime_env.serialize()

    def is_canceled(self) -> bool:
        """Return whether someone has cancelled the task that runs this code."""
        return self._context.cancelled


def _current_placement_group_id() -> PlacementGroupID | None:
    from skate.util.placement_group import get_current_placement_group

    group = get_current_placement_group()
    return None if group is None else group.id


def get_runtime_context() -> RuntimeContext:
    """Return what is known of the place where the calling code runs.

    Example:
        >>> @skate.remote
        ... def own_name() -> str:
        ...     return skate.get_runtime_context().get_task_name()
        >>> skate.get(own_name.remote())
        'own_name'
    """
    return RuntimeContext()
