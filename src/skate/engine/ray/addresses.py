"""Addresses of Ray clusters: what users write, and the address of the head that they mean.

A driver runs on a machine of its cluster, so that machine's processes say which clusters there
are: its raylets name their heads, and on the machine of a head the server of Ray Client names the
port that it listens at.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import urlsplit

import psutil
from ray._private.services import canonicalize_bootstrap_address_or_die

_CLIENT = "ray://"
_CLIENT_PORT, _HEAD_PORT = 10001, 6379  # unless a cluster chooses others
_CONNECT_SECONDS = 2.0  # for a name to be looked up and a connection to be made
_ANSWER_SECONDS = 10.0  # for the first bytes of whoever listens, who may be busy

# What opens a connection of HTTP/2, which Ray's services speak: the preface, then no settings.
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_HTTP2_SETTINGS = 4  # the kind of frame that answers it, in the fourth byte

_WAY_OUT = (
    "The program must run on a machine of the cluster, and give the address that `ray start` "
    "printed on its head, or 'auto'; or hand the program over with "
    "`ray job submit -- python program.py`"
)

T = TypeVar("T")


def head_address(written: str | None) -> str:
    """Return `host:port` of the head that `written` means, where something answers.

    Args:
        written: `"host:port"`, `"ray://host:port"` with the port of Ray Client or of the head, or
            `None` or `"auto"` for RAY_ADDRESS, or else the cluster of this machine.

    Raises:
        ConnectionError: If there is no such cluster, or nothing of Ray's answers at its address.
        ValueError: If `written` is no address.
    """
    if written in (None, "auto"):
        written = os.environ.get("RAY_ADDRESS") or "auto"
    if written == "auto":
        try:
            address: str = canonicalize_bootstrap_address_or_die("auto")
        except ConnectionError as error:
            raise unreachable("auto", "no node of one runs on this machine") from error
    else:
        address = _behind(written) if written.startswith(_CLIENT) else written
        _split(address, written)
    _check_answers(address, written)
    return address


def unreachable(written: str, why: str) -> ConnectionError:
    """Make the error that names the address, the reason and the way out."""
    return ConnectionError(f"could not join the Ray cluster at {written!r}: {why}. {_WAY_OUT}")


def _split(address: str, written: str) -> tuple[str, int | None]:
    """Return host and port. Raises ValueError if it is no address."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or (port is None and not written.startswith(_CLIENT)):
        raise ValueError(
            f"address takes 'auto', 'host:port' or 'ray://host:port'; got {written!r}"
        )
    return host, port


# -- Ray Client ----------------------------------------------------------------------------------


def _behind(written: str) -> str:
    """Return the address of the head that an address of Ray Client leads to."""
    host, port = _split(written.removeprefix(_CLIENT).rstrip("/"), written)
    there = _location(host)
    known = {
        head: client_port
        for head, client_port in _clusters_of_this_machine()
        if _location(_split(head, written)[0]) == there
    }
    for head, client_port in known.items():
        if port in (client_port, _split(head, written)[1]) and port is not None:
            return head
    unsure = [head for head, client_port in known.items() if client_port is None or port is None]
    if len(unsure) == 1 and (port is None or _listens(host, port)):
        return unsure[0]
    if port in (None, _CLIENT_PORT):
        return f"{host}:{_HEAD_PORT}"
    heads = ", ".join(sorted(known)) or "none"
    raise unreachable(
        written,
        f"ray:// is an address of Ray Client, which skate does not use; it joins the cluster "
        f"behind it, but no node of this machine belongs to one whose Ray Client listens at port "
        f"{port} of {host} (clusters with their head there: {heads})",
    )


def _clusters_of_this_machine() -> Iterator[tuple[str, int | None]]:
    """Yield the head's address of each, and the port of its Ray Client, if that runs here."""
    clients: dict[str, int] = {}
    heads = set()
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        options = dict(word.partition("=")[::2] for word in words)
        if "ray.util.client.server" in words and "--address" in options:
            clients[options["--address"]] = int(options.get("--port", _CLIENT_PORT))
        elif os.path.basename(words[0]) == "raylet" and "--gcs-address" in options:
            heads.add(options["--gcs-address"])
    for head in heads.union(clients):
        yield head, clients.get(head)


def _location(host: str) -> str:
    """Return one name for all names of a machine."""
    try:
        found = _in_time(lambda: socket.gethostbyname(host))
    except OSError:
        return host
    own = {address.address for card in psutil.net_if_addrs().values() for address in card}
    return "localhost" if found in own or found.startswith("127.") else found


# -- whether somebody is there -------------------------------------------------------------------


def _check_answers(address: str, written: str) -> None:
    try:
        connection = _in_time(lambda: _connected(address))
    except OSError as error:
        why = str(error) or type(error).__name__
        meant = "" if address == written else f" (that is {address})"
        raise unreachable(written, f"nothing answers there{meant}: {why}") from error
    with connection:
        if not _speaks_http2(connection):
            raise unreachable(written, f"what listens at {address} is not Ray")


def _connected(address: str) -> socket.socket:
    return socket.create_connection(_split(address, address), timeout=_CONNECT_SECONDS)


def _listens(host: str, port: int) -> bool:
    try:
        _in_time(lambda: _connected(f"{host}:{port}")).close()
    except OSError:
        return False
    return True


def _speaks_http2(connection: socket.socket) -> bool:
    if os.environ.get("RAY_USE_TLS", "0") not in ("0", ""):
        return True  # it would want a certificate first
    connection.settimeout(_ANSWER_SECONDS)
    try:
        connection.sendall(_HTTP2_GREETING)
        header = connection.recv(9, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(header) == 9 and header[3] == _HTTP2_SETTINGS


def _in_time(ask: Callable[[], T]) -> T:
    """Return what `ask` does, or raise TimeoutError: looking up a name knows no limit."""
    answers: list[T] = []
    errors: list[OSError] = []

    def run() -> None:
        try:
            answers.append(ask())
        except TimeoutError:  # of its own, about now
            pass
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="skate-ask", daemon=True)
    thread.start()
    thread.join(_CONNECT_SECONDS)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError(f"no answer within {_CONNECT_SECONDS:g} s")
    return answers[0]
