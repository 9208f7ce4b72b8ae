"""The port on which Prometheus collects what the processes of a session have measured.

A thread of the driver sleeps until somebody asks; then each process is asked, on its own socket.
"""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from skate._core.measurements import Family, families_of, own_measurements, prometheus_text
from skate.dashboard.own_names import is_own_name
from skate.engine.sessions import own_session

_HOST = "127.0.0.1"
_PREFIX = "ray_"  # of all names: dashboards that were made for Ray find them
_PROCESS_TAG = "WorkerId"
_PATHS = ("/", "/metrics")
_TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PATIENCE_SECONDS = 10.0  # with who asks slowly
_PAUSE_SECONDS = 0.1  # until a process without descriptors looks for some again

_open: weakref.WeakSet[MetricsPort] = weakref.WeakSet()


class MetricsPort:
    """Answers with the measurements of this session, from `open` to `close`.

    Args:
        port: Its number; 0 takes a free one.

    Raises:
        OSError: If the port is taken.
    """

    def __init__(self, port: int) -> None:
        self.pid: int = os.getpid()
        self._server = _Server(port)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._run, name="skate-metrics", daemon=True)
        _open.add(self)

    def open(self, has_processes: bool) -> None:
        """Answer from now on.

        Args:
            has_processes: Whether the session, which has begun, has other processes than this.
        """
        self._server.collect = _of_session if has_processes else _of_this_process
        self._thread.start()

    def _run(self) -> None:
        while not self._server.closing.is_set():
            self._server.handle_request()

    def close(self) -> None:
        """Give the port back."""
        if self not in _open:
            return
        _open.discard(self)
        self._server.closing.set()
        if self._thread.is_alive():
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
            self._thread.join()
        self._server.server_close()

    def detach_in_child(self) -> None:
        """Detach in a forked child: the port is the parent's."""
        self._server.socket.close()


class _Server(ThreadingMixIn, TCPServer):
    """As one of `http.server`, which would ask a name server for the name of this machine."""

    allow_reuse_address = True
    daemon_threads = True
    collect: Callable[[], list[Family]]

    def __init__(self, port: int) -> None:
        super().__init__((_HOST, port), _Collection)
        self.closing: threading.Event = threading.Event()

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:  # above all, no descriptor is left; who asks waits until there is one
            self.closing.wait(_PAUSE_SECONDS)
            raise

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that is gone."""


class _Collection(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE_SECONDS
    server_version = "skate"
    sys_version = ""

    def do_GET(self) -> None:
        hosts = self.headers.get_all("host", [])
        if len(hosts) != 1 or not is_own_name(hosts[0].encode()):
            self.send_error(403, "these numbers are for 127.0.0.1")
        elif self.path.partition("?")[0] not in _PATHS:
            self.send_error(404, "the numbers are at /metrics")
        else:
            self._send(prometheus_text(self.server.collect(), _PREFIX).encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", _TEXT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: Prometheus asks again and again."""


def _of_session() -> list[Family]:
    found = own_session().measurements()
    return [
        family for pid, rows in found for family in families_of(rows, {_PROCESS_TAG: str(pid)})
    ]


def _of_this_process() -> list[Family]:
    return families_of(own_measurements(), {_PROCESS_TAG: str(os.getpid())})


def _detach_all() -> None:
    for one in [*_open]:
        one.detach_in_child()
    _open.clear()


os.register_at_fork(after_in_child=_detach_all)
