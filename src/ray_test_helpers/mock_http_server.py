"""`ray.data.tests.mock_http_server`: a file that is served by HTTP.

from ray.data.tests.mock_http_server import *
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any, TypeVar

_pytest: Any = import_module("pytest")  # who imports this runs under it
_Function = TypeVar("_Function")
_CONTENT = b"a line\nanother line\n"


def _fixture(**settings: Any) -> Callable[[_Function], _Function]:
    made: Callable[[_Function], _Function] = _pytest.fixture(**settings)
    return made


class _OneFile(BaseHTTPRequestHandler):
    """Answers every question with the same file."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(_CONTENT)))
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(_CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the output is the test's."""


@_fixture(scope="module")
def http_server() -> Iterator[str]:
    """Yield the address of a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _OneFile) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@_fixture(scope="module")
def http_file(http_server: str) -> str:
    """Return the address of a file with two lines."""
    return f"{http_server}/index/realfile"


__all__ = ["http_file", "http_server"]
