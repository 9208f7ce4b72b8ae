"""`ray._common.network_utils`: addresses, put together and taken apart."""

from __future__ import annotations

import socket

from skate._core.addresses import build_address
from skate.util._surroundings import get_node_ip_address

__all__ = ["build_address", "find_free_port", "is_localhost", "parse_address"]


def parse_address(address: str) -> tuple[str, str] | None:
    host, separator, port = address.rpartition(":")
    if not separator or (":" in host and not host.startswith("[")):
        return None
    return host.strip("[]"), port


def is_localhost(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1", get_node_ip_address())


def find_free_port(family: socket.AddressFamily = socket.AF_INET) -> int:
    with socket.socket(family) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
