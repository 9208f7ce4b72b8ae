"""The piece of work that a thread or coroutine of a worker is busy with."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.engine.local.messages import WorkSettings
    from skate.engine.local.reactor import Waiter


class Running:
    """What is known of some work while it runs."""

    __slots__ = (
        "began", "function", "function_name", "id", "label", "leaving", "pending", "settings",
        "waiter",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        function_name: str,
        label: str,
        settings: WorkSettings | None,
        function: object = None,
    ) -> None:
        self.began: float  # by `time.perf_counter`; set where it begins, on the main thread
        self.id: int = id
        self.leaving: bool = False  # it has called exit_actor()
        # Its wait is to end, because it was cancelled; see `reactor.StopSignal`.
        self.pending: bool = False
        self.waiter: Waiter | None = None  # what it waits for, in an actor with several calls
        self.function: Any = function
        self.function_name: str = function_name
        self.label: str = label  # in front of what it prints
        self.settings: WorkSettings = settings or {}


running_now: contextvars.ContextVar[Running | None] = contextvars.ContextVar(
    "running_now", default=None
)
