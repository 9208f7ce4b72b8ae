"""Where we run and who else is there."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from skate.engine import current_engine, installed_engine
from skate.engine.base import Engine

_LOOPBACK = "127.0.0.1"
_known: WeakKeyDictionary[Engine, str] = WeakKeyDictionary()  # a process does not move


def list_named_actors(all_namespaces: bool = False) -> list[str] | list[dict[str, str]]:
    """Return the names of the live named actors.

    Args:
        all_namespaces: Whether to list those of every namespace, and not of this one only.

    Returns:
        Names, or with `all_namespaces` dictionaries: `{"name": …, "namespace": …}`.

    Example:
        >>> @skate.remote
        ... class Registered:
        ...     pass
        >>> actor = Registered.options(name="a registered one").remote()
        >>> "a registered one" in skate.util.list_named_actors()
        True
    """
    found = current_engine().list_named_actors(all_namespaces)
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in found]
    return [name for _, name in found]


def get_node_ip_address(address: str | None = None) -> str:
    """Return the address of this machine as its peers see it; on a single machine the loopback.

    Args:
        address: A `"host:port"`, to get the local address from which that one would be reached; no
            packet is sent.

    Raises:
        ValueError: If `address` is not of that form.

    Example:
        >>> skate.util.get_node_ip_address()
        '127.0.0.1'
    """
    if address is not None:
        return _address_towards(address)
    engine = installed_engine()
    if engine is None:
        return _LOOPBACK
    if engine not in _known:
        _known[engine] = _address_in(engine)
    return _known[engine]


def _address_in(engine: Engine) -> str:
    here = engine.context().node_id
    for node in engine.nodes():
        if node["NodeID"] == here:
            return str(node["NodeManagerAddress"])
    return _LOOPBACK


def _address_towards(address: str) -> str:
    import socket

    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        raise ValueError(
            f'address must be "host:port", for example "10.0.0.1:80"; got {address!r}'
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host.strip("[]"), int(port)))
        return str(probe.getsockname()[0])
