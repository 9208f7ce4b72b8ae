"""What the hub writes to workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.engine.local import messages as m

if TYPE_CHECKING:
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.local.reactor import Reactor
    from skate.engine.local.wire import Message


class WorkerOutbox:
    """Collects messages; the engine writes them when it has done its work."""

    def __init__(self, reactor: Reactor) -> None:
        self.urgent: bool = False  # something was sent that must not wait for company
        self._collect = reactor.collect

    def send(
        self, worker: WorkerProcess, message: tuple[object, ...], at_once: bool = True
    ) -> None:
        """Send one of `messages`: at once, or with others soon."""
        self.write(worker, m.encode(message), at_once)

    def write(self, worker: WorkerProcess, message: Message, at_once: bool) -> None:
        """Send a message that is encoded already."""
        self._collect(worker.connection, message)
        if at_once:
            self.urgent = True
