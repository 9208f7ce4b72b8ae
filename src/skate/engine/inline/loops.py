"""The event loop of an async actor, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine


class LoopThread(threading.Thread):
    """Runs coroutines; each begins before `start_call` returns."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"skate-{name}", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._guard = threading.RLock()
        self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.start()

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = [task for task in asyncio.all_tasks(self._loop) if not task.done()]
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    def start_call(
        self, make: Callable[[], Coroutine[object, object, None]], cancelled: Callable[[], None]
    ) -> Callable[[], None] | None:
        """Run the coroutine up to its first real wait, then let it go on by itself.

        Returns what cancels it, or None if this loop has been stopped. `cancelled` is called when
        that was done, by whoever or by the end of the loop: the coroutine itself cannot tell, as
        one that is cancelled before its first step never runs.
        """
        begun = threading.Event()
        started: list[asyncio.Task[None]] = []

        def finished(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                cancelled()

        def start() -> None:
            task = self._loop.create_task(make())
            started.append(task)
            self._tasks.add(task)
            task.add_done_callback(finished)
            self._loop.call_soon(begun.set)  # after the first step of the task

        with self._guard:
            if self._stopped:
                return None
            self._loop.call_soon_threadsafe(start)
        if not isinstance(threading.current_thread(), LoopThread):
            begun.wait()  # on another loop's thread, that loop could be what is waited for
        return lambda: self._post(lambda: started[0].cancel())

    def _post(self, function: Callable[[], object]) -> None:
        with self._guard:
            if not self._stopped:
                self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """Cancel what runs, and end the thread."""
        with self._guard:
            if not self._stopped:
                self._stopped = True
                self._loop.call_soon_threadsafe(self._loop.stop)
