"""Calls that block, and event loops, which they would stop."""

from __future__ import annotations

import asyncio


def refuse_event_loop(instead: str) -> None:
    """Raise a RuntimeError inside of async code, which should do this `instead`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "sync methods wait, and should not be called from within an `asyncio` event loop, which "
        f"they would stop: use {instead}"
    )
