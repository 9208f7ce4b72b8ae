"""Workers that have had nothing to do for a while end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.engine.local.hub.ports import Ports
    from skate.engine.local.hub.processes import Processes
    from skate.engine.local.hub.scheduler import Scheduler

_IDLE_SECONDS = 1.0  # after which a worker that is not needed ends


class IdleWorkers:
    """Retires the idle workers that are not worth keeping."""

    def __init__(self, ports: Ports, scheduler: Scheduler, processes: Processes) -> None:
        self._ports = ports
        self._scheduler = scheduler
        self._processes = processes
        self._will_look = False

    def look_later(self) -> None:
        """Look in a while whether workers that are idle now still are."""
        if not self._will_look and self._scheduler.has_surplus():
            self._will_look = True
            self._ports.call_later(_IDLE_SECONDS, self._look)

    def _look(self) -> None:
        self._will_look = False
        for worker in self._scheduler.surplus(time.monotonic() - _IDLE_SECONDS * 0.9):
            self._processes.retire(worker)
        self.look_later()
