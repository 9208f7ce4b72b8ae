"""Direct connections between workers, as far as the hub has to do with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skate.engine.local import messages as m

if TYPE_CHECKING:
    from skate.engine.local.hub.dispatch import WorkerOutbox
    from skate.engine.local.hub.state import State
    from skate.engine.local.hub.values import Values
    from skate.engine.local.hub.workers import WorkerProcess


class Peering:
    """Tells workers where actors listen, and keeps what is too large for a direct answer."""

    def __init__(self, state: State, values: Values, outbox: WorkerOutbox) -> None:
        self._state = state
        self._values = values
        self._outbox = outbox

    def on_connect(self, worker: WorkerProcess, actor_id: int) -> None:
        """Tell the worker where an actor listens, or that it cannot be called directly."""
        actor = self._state.actors.get(actor_id)
        target = actor.worker if actor is not None else None
        if actor is None or target is None or actor.options.max_pending_calls > 0:
            self._outbox.send(worker, m.PeerAddress(actor_id, "", False, 0))
        elif target.listening:
            self._tell_address(worker, target)
        else:
            if not target.wants_peer:
                self._outbox.send(target, m.ListenToPeers())
            target.wants_peer.append(worker)

    def on_listening(self, worker: WorkerProcess, path: str) -> None:
        """Tell who waits for it that an actor has made its socket, or could not."""
        worker.listening = path
        for asking in worker.wants_peer:
            self._tell_address(asking, worker)
        worker.wants_peer.clear()

    def _tell_address(self, asking: WorkerProcess, target: WorkerProcess) -> None:
        actor = target.actor
        assert actor is not None
        address = m.PeerAddress(actor.id, target.listening, actor.concurrent, target.number)
        self._outbox.send(asking, address)

    def on_put_for(
        self,
        worker: WorkerProcess,
        owner: int,
        id: int,
        kind: int,
        data: object,
        contained: Sequence[int],
    ) -> None:
        """Keep the answer to a direct call, too large or too connected to go directly."""
        caller = self._state.workers.get(owner)
        if caller is not None:
            self._values.on_put(caller, id, kind, data, contained)
        else:
            self._values.discard(kind, data)
