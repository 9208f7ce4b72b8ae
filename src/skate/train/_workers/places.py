"""Where the workers of a group are: which of them share a machine, and its address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import skate
from skate.util import get_node_ip_address


class WorkerPlace(NamedTuple):
    """A worker's place among the machines."""

    address: str
    local_rank: int
    local_world_size: int
    node_rank: int


def here() -> tuple[str, str]:
    """Return the id and the address of the machine, in a worker."""
    return skate.get_runtime_context().get_node_id(), get_node_ip_address()


def places_of(machines: Sequence[tuple[str, str]]) -> list[WorkerPlace]:
    """Return the places of workers, by rank, from what `here` said in each. Machines are numbered
    in the order of their first worker."""
    nodes = [node for node, _ in machines]
    numbers = {node: number for number, node in enumerate(dict.fromkeys(nodes))}
    return [
        WorkerPlace(address, nodes[:rank].count(node), nodes.count(node), numbers[node])
        for rank, (node, address) in enumerate(machines)
    ]
