"""The page of the session of this process, if `init` was asked for one."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from skate._core import notices
from skate._core.argument_checks import wrong_type, wrong_value

if TYPE_CHECKING:
    from skate.dashboard.launch import DriverPage
    from skate.engine.base import Engine

_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_page: DriverPage | None = None


@contextmanager
def offered(
    wanted: object, host: object = None, port: object = None
) -> Iterator[Callable[[Engine], None]]:
    """Reserve what the page of a session needs, before that is begun; yield what shows the page.

    Args:
        wanted: Whether there shall be one.
        host: Where, as Ray's programs say it.
        port: Its port; None takes a free one.

    Raises:
        ImportError: If what serves it is not installed.
        OSError: If the port is taken.
    """
    if wanted not in (None, False, True):
        raise wrong_type("dashboard", wanted, "True or False")
    if port is not None and (not isinstance(port, int) or not 0 <= port < 65536):
        raise wrong_value("dashboard_port", port, "a number below 65,536, or None")
    if not wanted or _page is not None:
        yield lambda engine: None
        return
    from skate.dashboard.launch import DriverPage

    if host not in (None, *_LOOPBACK):
        notices.say(
            f"the page is for this machine alone, not for dashboard_host={host!r}; from another "
            "one, reach it by `ssh -L`"
        )
    found = DriverPage(port)

    def show(engine: Engine) -> None:
        global _page
        if engine.address != "local":
            notices.warn(f"there is no page of the engine {engine.address!r}: it shows 'local'")
            return
        found.show()
        _page = found
        atexit.register(close)  # before the end of the engine, which was registered earlier
        notices.say(f"what runs is shown at http://{found.address}")

    try:
        yield show
    finally:
        if _page is not found:
            found.close()


def address() -> str:
    """Return the address of the page, without `http://`; "" if there is none.

    RAY_OVERRIDE_DASHBOARD_URL may name another, by which it is reached through a proxy.
    """
    elsewhere = os.environ.get("RAY_OVERRIDE_DASHBOARD_URL")
    if elsewhere:
        return elsewhere.partition("://")[2] or elsewhere
    return _page.address if _page is not None and _page.pid == os.getpid() else ""


def close() -> None:
    """End the page; it stays for as long as somebody looks at it."""
    global _page
    if _page is not None:
        found, _page = _page, None
        atexit.unregister(close)
        found.close()
