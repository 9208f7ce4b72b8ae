"""Where the running instance answers HTTP."""

from __future__ import annotations

import skate
from skate._core.addresses import build_address
from skate._core.optional_imports import install_command
from skate.serve import _client


def http_address() -> str:
    """Return the URL of the port, as in `http://127.0.0.1:8000`.

    Raises:
        SkateServeError: If nothing is being served.
        RuntimeError: If this instance answers no HTTP.
    """
    found = skate.get(_client.connect().controller.open.remote(None))
    if found is None:
        raise RuntimeError(
            "this instance answers no HTTP: it was started without, or uvicorn and starlette are "
            f"not installed: {install_command('serve')}"
        )
    scheme, host, port = found
    return f"{scheme}://{build_address(host, port)}"
