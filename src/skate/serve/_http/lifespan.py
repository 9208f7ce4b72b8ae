"""The start and the end of an ASGI application, as the protocol's `lifespan` has it."""

from __future__ import annotations

import asyncio
from typing import Any

from skate.serve._http.answers import AsgiApp, Message, Scope


class Lifespan:
    """Runs an application's lifespan in a task of its own, from `start` to `stop`.

    An application that knows no lifespan raises or returns at once; that is fine.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._outbox: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.state: dict[str, Any] = {}

    async def start(self) -> None:
        """Start the application.

        Raises:
            RuntimeError: If it failed to start, with what it says.
        """
        self._task = asyncio.get_running_loop().create_task(self._run())
        answer = await self._ask("startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            raise RuntimeError(
                f"the ASGI application failed to start:\n{answer.get('message', '')}"
            )

    async def stop(self) -> None:
        """Let the application end."""
        if self._task is not None and not self._task.done():
            await self._ask("shutdown")
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _ask(self, what: str) -> Message | None:
        """Return the application's answer; None if it ended without one."""
        assert self._task is not None
        self._inbox.put_nowait({"type": f"lifespan.{what}"})
        answer = asyncio.ensure_future(self._outbox.get())
        await asyncio.wait([answer, self._task], return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        return None

    async def _run(self) -> None:
        scope: Scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        try:
            await self._app(scope, self._inbox.get, self._outbox.put)
        except Exception:
            pass  # it knows no lifespan, or has said what failed
