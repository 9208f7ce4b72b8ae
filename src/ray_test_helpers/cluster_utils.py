"""`ray.cluster_utils`: several nodes, whose resources are added up on the one machine there is.

Nodes may join at any time, so what is too much for those that are there waits.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import skate
from skate._facade.init import machine
from skate.engine import current_engine

__all__ = ["AutoscalingCluster", "Cluster", "cluster_not_supported"]

cluster_not_supported = True  # tests that look at single nodes say so with this


class _Node:
    """One of several that are this machine."""

    node_ip_address = "127.0.0.1"

    def __init__(self, address: str, head: bool) -> None:
        self.address = address
        self.head = head

    @property
    def node_id(self) -> str:
        return skate.get_runtime_context().get_node_id()

    unique_id = node_id


class Cluster:
    """Nodes that are told apart by nobody: what runs on any of them runs on this machine."""

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: dict[str, Any] | None = None,
        shutdown_at_exit: bool = True,
    ) -> None:
        self.address = "auto"
        self._nodes: list[_Node] = []
        self._total: Counter[str] = Counter()
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()

    def add_node(
        self,
        wait: bool = True,
        num_cpus: float = 1,
        num_gpus: float = 0,
        resources: dict[str, float] | None = None,
        labels: dict[str, str] | None = None,
        **services: Any,
    ) -> _Node:
        """Add resources. What concerns the services of a node is not needed; the labels of the
        machine are those of the first node."""
        amounts = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
        self._total.update(amounts)
        own = dict(self._total)
        machine.update(
            num_cpus=own.pop("CPU"), num_gpus=own.pop("GPU"), resources=own, growing=True
        )
        if labels and not self._nodes:
            machine["labels"] = labels
        if skate.is_initialized():
            current_engine().add_resources(amounts)
        self._nodes.append(_Node(self.address, head=not self._nodes))
        return self._nodes[-1]

    def connect(self, namespace: str | None = None) -> None:
        skate.init(address=self.address, namespace=namespace)

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Return at once, as all nodes are there."""

    def list_all_nodes(self) -> list[_Node]:
        return list(self._nodes)

    @property
    def head_node(self) -> _Node:
        return self._nodes[0]

    def remove_node(self, node: Any, allow_graceful: bool = True) -> None:
        raise NotImplementedError(
            "there is one machine, and no node of it can be taken away: use Ray itself for this"
        )

    def shutdown(self) -> None:
        machine.clear()


class AutoscalingCluster:
    """A cluster that grows and shrinks, which only Ray itself has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("one machine does not grow and shrink: use Ray itself for this")
