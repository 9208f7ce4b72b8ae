"""What the hub needs of the engine around it, and nothing else of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading

    from skate.engine.local.hub.spilling import Spilling
    from skate.engine.local.objects import ObjectEntry
    from skate.engine.local.reactor import Reactor
    from skate.engine.local.store import Store


class Ports:
    """The lock and the reactor of the driver, its objects, its store, its output."""

    __slots__ = (
        "complete", "lock", "new_id", "on_complete", "print_text", "printed", "reactor",
        "spilling", "store",
    )  # fmt: skip

    def __init__(
        self,
        lock: threading.RLock,
        reactor: Reactor,
        store: Store,
        spilling: Spilling,
        complete: Callable[[ObjectEntry, int, object], None],
        on_complete: Callable[[ObjectEntry, Callable[[ObjectEntry], None]], None],
        new_id: Callable[[], int],
        print_text: Callable[[int, int, str, str, int, int], None],
        printed: Callable[[int], list[dict[str, object]]],
    ) -> None:
        self.lock: threading.RLock = lock
        self.reactor: Reactor = reactor
        self.store: Store = store
        self.spilling: Spilling = spilling
        # Gives a pending entry its value.
        self.complete: Callable[[ObjectEntry, int, Any], None] = complete
        # Calls when an entry is complete, maybe now.
        self.on_complete: Callable[[ObjectEntry, Callable[[ObjectEntry], None]], None] = (
            on_complete
        )
        self.new_id: Callable[[], int] = new_id
        # Prints for a pid: a stream, a label, a text, the task, the actor.
        self.print_text: Callable[[int, int, str, str, int, int], None] = print_text
        # Returns what was printed lately, after the piece of that number.
        self.printed: Callable[[int], list[dict[str, object]]] = printed

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        """Call with the lock held, after `delay` seconds."""

        def call() -> None:
            with self.lock:
                callback()

        self.reactor.call_later(delay, call)
