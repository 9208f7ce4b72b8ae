"""Rows of every kind, from whoever knows: the engine of this program, or a session of another."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import skate

if TYPE_CHECKING:
    from skate.job_submission import JobSubmissionClient

Row = dict[str, Any]

_UNEXPECTED = ("SYSTEM_ERROR", "USER_ERROR", "NODE_OUT_OF_MEMORY")


class StateSource(Protocol):
    """What is asked; an `Engine` is one."""

    def state(self, kind: str) -> list[Row]:
        """Return the rows of a kind, as `Engine.state` says."""

    def printed(self, since: int) -> list[Row]:
        """Return pieces of output, as `Engine.printed` says."""

    def nodes(self) -> list[Row]:
        """Return the machines."""

    def placement_group_table(self) -> dict[str, Any]:
        """Return the groups, by their ids."""


def all_rows(kind: str, source: StateSource) -> Iterable[Row]:
    """Return the rows of a kind, one of `STATE_KINDS`."""
    return _MADE[kind](source) if kind in _MADE else source.state(kind)


def _nodes(source: StateSource) -> Iterable[Row]:
    (driver, *_) = [*source.state("workers"), {"start_time_ms": None}]
    for node in source.nodes():
        yield {
            "node_id": node["NodeID"],
            "node_ip": node["NodeManagerAddress"],
            "is_head_node": "node:__internal_head__" in node["Resources"],
            "state": "ALIVE" if node["Alive"] else "DEAD",
            "state_message": node.get("DeathReasonMessage") or None,
            "node_name": node["NodeName"],
            "resources_total": node["Resources"],
            "labels": node.get("Labels", {}),
            "start_time_ms": driver["start_time_ms"],
            "end_time_ms": 0,
        }


def _groups(source: StateSource) -> Iterable[Row]:
    for group in source.placement_group_table().values():
        yield {**group, "bundles": [*_bundles(group)]}


def _bundles(group: Row) -> Iterable[Row]:
    """Yield the bundles of a group as Ray's state API shows them."""
    for index, amounts in group["bundles"].items():
        yield {
            "bundle_id": {
                "placement_group_id": group["placement_group_id"],
                "bundle_index": index,
            },
            "unit_resources": amounts,
            "node_id": group["bundles_to_node_id"].get(index) or None,
        }


def _cluster_events(source: StateSource) -> Iterable[Row]:
    """Yield the processes that have ended although nobody had asked them to."""
    for row in source.state("workers"):
        if row["exit_type"] in _UNEXPECTED:
            yield {
                "severity": "ERROR",
                "time": datetime.fromtimestamp(row["end_time_ms"] / 1000).isoformat(" "),
                "source_type": "CORE_WORKER",
                "message": f"process {row['pid']} has ended: {row['exit_detail']}",
                "event_id": row["worker_id"],
                "custom_fields": {name: row[name] for name in ("exit_type", "node_id", "pid")},
            }


def job_rows() -> Iterable[Row]:
    """Yield this program if it has a session, and what was submitted on this machine."""
    from dataclasses import asdict

    from skate.engine import installed_engine
    from skate.job_submission import JobDetails, JobStatus, JobType

    jobs = submitted_jobs().list_jobs()
    engine = installed_engine()
    id = skate.get_runtime_context().get_job_id() if engine is not None else None
    if id is not None and id not in (details.job_id for details in jobs):
        command = shlex.join(sys.argv)
        jobs.insert(0, JobDetails(JobType.DRIVER, JobStatus.RUNNING, command, job_id=id))
    for details in jobs:
        row = asdict(details)
        yield {**row, "type": details.type.value, "status": details.status.value}


def submitted_jobs() -> JobSubmissionClient:
    """Return who knows the jobs that were submitted: this machine, or the engine's cluster."""
    from skate.engine import installed_engine
    from skate.job_submission import JobSubmissionClient

    engine = installed_engine()
    return JobSubmissionClient(engine.address if engine is not None else None)


_MADE: dict[str, Callable[[StateSource], Iterable[Row]]] = {
    "cluster_events": _cluster_events,
    "jobs": lambda source: job_rows(),  # which the machine knows, whoever is asked
    "nodes": _nodes,
    "placement_groups": _groups,
}
STATE_KINDS = ("actors", "objects", "runtime_envs", "tasks", "workers", *_MADE)
