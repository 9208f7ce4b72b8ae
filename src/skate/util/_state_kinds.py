"""The kinds of rows, and the columns that each of them has."""

from __future__ import annotations

from skate.util._state_rows import StateRow


class ActorState(StateRow):
    """An actor."""

    base = (
        "actor_id",
        "class_name",
        "state",
        "job_id",
        "name",
        "node_id",
        "pid",
        "ray_namespace",
    )
    unfiltered = (
        "serialized_runtime_env",
        "required_resources",
        "death_cause",
        "is_detached",
        "num_restarts",
        "num_restarts_due_to_lineage_reconstruction",
        "num_restarts_due_to_node_preemption",
        "call_site",
        "label_selector",
        "fallback_strategy",
    )
    more = (*unfiltered, "placement_group_id", "repr_name")


class JobState(StateRow):
    """A program."""

    base = (
        "type",
        "job_id",
        "submission_id",
        "driver_info",
        "status",
        "entrypoint",
        "message",
        "error_type",
    )
    more = (
        "start_time",
        "end_time",
        "metadata",
        "runtime_env",
        "driver_agent_http_address",
        "driver_node_id",
        "driver_exit_code",
    )
    unfiltered = ("driver_info", "entrypoint", "message", "error_type", *more)


class NodeState(StateRow):
    """A machine."""

    base = (
        "node_id",
        "node_ip",
        "is_head_node",
        "state",
        "state_message",
        "node_name",
        "resources_total",
        "labels",
    )
    more = ("start_time_ms", "end_time_ms")
    unfiltered = ("state_message", "resources_total", "labels", *more)


class ObjectState(StateRow):
    """An object."""

    base = (
        "object_id",
        "object_size",
        "task_status",
        "attempt_number",
        "reference_type",
        "call_site",
        "type",
        "pid",
        "ip",
    )


class PlacementGroupState(StateRow):
    """A placement group."""

    base = ("placement_group_id", "name", "creator_job_id", "state")
    unfiltered = ("bundles", "stats", "topology_strategy", "topology_assignments")
    more = ("is_detached", *unfiltered)


class RuntimeEnvState(StateRow):
    """A runtime environment."""

    base = ("runtime_env", "success", "creation_time_ms", "node_id")
    more = ("ref_cnt", "error")
    unfiltered = ("creation_time_ms", "ref_cnt")


class TaskState(StateRow):
    """An attempt at a task."""

    base = (
        "task_id",
        "attempt_number",
        "name",
        "state",
        "job_id",
        "actor_id",
        "type",
        "func_or_class_name",
        "parent_task_id",
        "node_id",
        "worker_id",
        "worker_pid",
        "error_type",
    )
    unfiltered = (
        "required_resources",
        "runtime_env_info",
        "events",
        "profiling_data",
        "creation_time_ms",
        "start_time_ms",
        "end_time_ms",
        "task_log_info",
        "error_message",
        "call_site",
        "label_selector",
        "fallback_strategy",
    )
    more = ("language", "placement_group_id", "is_debugger_paused", *unfiltered)


class WorkerState(StateRow):
    """A process."""

    base = ("worker_id", "is_alive", "worker_type", "exit_type", "node_id", "ip", "pid")
    unfiltered = (
        "exit_detail",
        "worker_launch_time_ms",
        "worker_launched_time_ms",
        "start_time_ms",
        "end_time_ms",
    )
    more = ("debugger_port", "num_paused_threads", *unfiltered)


class ClusterEventState(StateRow):
    """Something that went wrong."""

    base = ("severity", "time", "source_type", "message", "event_id", "custom_fields")


ROWS_OF: dict[str, type[StateRow]] = {
    "actors": ActorState,
    "cluster_events": ClusterEventState,
    "jobs": JobState,
    "nodes": NodeState,
    "objects": ObjectState,
    "placement_groups": PlacementGroupState,
    "runtime_envs": RuntimeEnvState,
    "tasks": TaskState,
    "workers": WorkerState,
}
