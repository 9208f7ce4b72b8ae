"""Addresses at which workers can be reached by each other."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

from skate.util import get_node_ip_address

if TYPE_CHECKING:
    from skate.train._workers.group import WorkerGroup

# Below the ports that the system gives to outgoing connections: nobody takes one of these between
# our choice and the moment when the user's loop listens there.
_PORTS = range(20_000, 32_000)


def free_addresses(group: WorkerGroup) -> list[str]:
    """Find an address, as host:port, for each worker."""
    addresses = group.execute(free_address)
    while len(set(addresses)) < len(addresses):  # two have chosen the same port
        addresses = group.execute(free_address)
    return addresses


def free_address() -> str:
    """Find a free port of this machine, as host:port."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        return f"{get_node_ip_address()}:{port}"
