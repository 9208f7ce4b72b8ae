"""`ray.util.state`: what the state service of a cluster answers. There is none on one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import skate

_NAMES = """
    get_actor get_job get_node get_objects get_placement_group get_task get_worker
    list_actors list_cluster_events list_jobs list_logs list_objects list_placement_groups
    list_runtime_envs list_tasks list_workers get_log
    summarize_actors summarize_objects summarize_tasks
""".split()


def list_nodes(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    """The one node."""
    return [
        {"node_id": node["NodeID"], "state": "ALIVE", "resources_total": node["Resources"]}
        for node in skate.nodes()
    ]


def __getattr__(name: str) -> Callable[..., Any]:
    """Importable, so that a program runs as far as it does not ask."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"ray.util.state.{name}() asks the state service of a Ray cluster, which does not "
            "exist on one machine: skate.nodes(), skate.available_resources() and "
            "util.list_named_actors() say what there is"
        )

    return refuse
