"""What is closed with an event loop: sockets that others would find taken.

On the inline engine all actors live in the program: their loops end, and it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def at_end_of_loop(close: Callable[[], object]) -> asyncio.Task[None]:
    """Call `close` when the running loop cancels its tasks because it ends."""
    return asyncio.get_running_loop().create_task(_wait(close))


async def _wait(close: Callable[[], object]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        close()
