"""SIGTERM to a replica: it finishes the requests that it has, and ends.

A replica is never without calls, as the controller waits for its end by one. So it does not leave
the signal to the engine, which lets calls go on: it takes no more requests, as when it is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.serve._replica.actor import Replica

_REFUSING_SECONDS = 0.5  # for requests that are on their way: refused, they go elsewhere


def end_gently_on_sigterm(replica: Replica) -> None:
    """Have SIGTERM end this process, which is the replica's own, when its requests are answered.

    A second one ends it at once. User code that handles the signal by itself goes before.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    leaving: list[asyncio.Task[None]] = []

    def begin() -> None:
        leaving.append(loop.create_task(_leave(replica)))

    def handle(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        loop.call_soon_threadsafe(begin)

    signal.signal(signal.SIGTERM, handle)


async def _leave(replica: Replica) -> None:
    patience = replica.options.graceful_shutdown_timeout_s
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(replica.drain(), patience)
        await asyncio.sleep(_REFUSING_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
