"""Host and port as one text."""

from __future__ import annotations


def build_address(host: str, port: int | str) -> str:
    """Return "host:port"; hosts with colons, of IPv6, are in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
